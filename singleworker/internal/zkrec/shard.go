package zkrec

import (
	"maps"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Sharding is how a job is sharded: each shard is a separate slot, and runs every
// tick with its index and its parameter. It follows ElasticJob's
// shardingTotalCount and shardingItemParameters.
type Sharding struct {
	Shards      int            `json:"shards,omitempty"`       // 0 means that the job is not sharded and is a slot itself
	ShardParams map[int]string `json:"shard_params,omitempty"` // by index; a shard may have none
	BeforeTick  string         `json:"before_tick,omitempty"`  // the handler that the first shard calls before any shard begins a tick
}

// Equal reports whether both have the same shards and parameters, and call the same before a tick.
func (s Sharding) Equal(other Sharding) bool {
	return s.Shards == other.Shards && s.BeforeTick == other.BeforeTick && maps.Equal(s.ShardParams, other.ShardParams)
}

// Slots lists the slots of a job with this sharding, by index.
func (s Sharding) Slots(name string) []string {
	if s.Shards == 0 {
		return []string{name}
	}
	slots := make([]string, s.Shards)
	for k := range slots {
		slots[k] = ShardSlot(name, k)
	}
	return slots
}

// Check returns an *invalid.FieldError if the sharding is invalid.
func (s Sharding) Check() error { return job.CheckShards(s.Shards, s.ShardParams) }

// Layout is the sharding of a job's ticks, with its bounds. While the job is being
// resharded it differs from the spec's. A change takes effect between two ticks:
// ticks up to Until, which some shard has already claimed, are run by all shards
// of this layout, and when the last one has ended the next layout begins.
type Layout struct {
	Sharding
	Since int64 `json:"since,omitempty"` // Unix milliseconds: earlier ticks, and this one, belong to an earlier layout
	Until int64 `json:"until,omitempty"` // the last tick of the layout during resharding; 0 means not decided yet

	unknown Unknown
}

type layoutFields Layout

// MarshalJSON implements json.Marshaler.
func (l Layout) MarshalJSON() ([]byte, error) { return l.unknown.Encode(layoutFields(l)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Layout) UnmarshalJSON(data []byte) error { return l.unknown.Decode(data, (*layoutFields)(l)) }

// sharding is the sharding that the spec specifies.
func (s Spec) sharding() Sharding {
	return Sharding{Shards: s.Job.Shards, ShardParams: s.Job.ShardParameters, BeforeTick: s.Job.BeforeTick}
}

// ActiveLayout is the layout in which the job's ticks are run now.
func (s Spec) ActiveLayout() Layout {
	if s.Layout == nil {
		return Layout{Sharding: s.sharding()}
	}
	return *s.Layout
}

// Resizing reports whether the layout is to be replaced by the spec's sharding.
func (s Spec) Resizing() bool { return !s.ActiveLayout().Equal(s.sharding()) }

// layoutOver is the layout of s when it is written over old.
func (s Spec) layoutOver(old Spec) *Layout {
	layout := old.ActiveLayout()
	if layout.Equal(s.sharding()) {
		layout.Until = 0 // the layout stays
		if layout.Since == 0 {
			return nil
		}
	}
	return &layout
}

// Resized returns s after resharding: the old layout has finished its tick Until.
func (s Spec) Resized() Spec {
	s.Layout = &Layout{Sharding: s.sharding(), Since: s.ActiveLayout().Until}
	return s
}

// ShardsBegin is the time after which the ticks of a newly created shard begin, with the ticks of
// replaced schedules, which it records as missed: the start of its layout, or the last complete
// tick if that is later, because a shard that was deleted manually must not run its ticks again.
func (s Spec) ShardsBegin(complete Complete) int64 {
	oldest := s.Since
	for f := s.Former; f != nil && f.Since != 0; f = f.Former {
		oldest = f.Since
	}
	return max(oldest, s.ActiveLayout().Since, complete.Tick)
}

// ShardSlot names a slot of a sharded job: a slot has the name of its shard.
func ShardSlot(name string, shard int) string { return job.ShardName(name, shard) }

// SplitSlot splits a slot's name; sharded is false for a job that is a slot
// itself.
func SplitSlot(slot string) (name string, shard int, sharded bool) {
	if name, _, ok := SplitInstance(slot); ok {
		return name, 0, false
	}
	return job.SplitShard(slot)
}

// InstanceSlot names the slot of one instance of a job that runs on every instance. Neither name
// contains a '/'.
func InstanceSlot(name, sid string) string { return name + "/" + sid }

// SplitInstance splits the name of such a slot; ok is false for any other.
func SplitInstance(slot string) (name, sid string, ok bool) { return strings.Cut(slot, "/") }

// WaitsFor is the slot that calls BeforeTick, the first shard's, if slot is another one of a job
// that has such a function.
func (l Layout) WaitsFor(slot string) (first string, waits bool) {
	name, shard, sharded := SplitSlot(slot)
	return ShardSlot(name, 0), sharded && shard > 0 && l.BeforeTick != ""
}

// Calls reports whether slot is the one that calls BeforeTick.
func (l Layout) Calls(slot string) bool {
	_, shard, sharded := SplitSlot(slot)
	return sharded && shard == 0 && l.BeforeTick != ""
}

// ParseShard reads the name of a shard's node: "3", but not "03" or "-1", which only a manual edit
// can have created.
func ParseShard(name string) (shard int, ok bool) {
	shard, err := strconv.Atoi(name)
	return shard, err == nil && shard >= 0 && strconv.Itoa(shard) == name
}

// JobOfSlot is the job that a slot belongs to.
func JobOfSlot(slot string) string {
	name, _, _ := SplitSlot(slot)
	return name
}

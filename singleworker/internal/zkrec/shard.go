package zkrec

import (
	"maps"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Sharding divides a job: each of its shards runs every tick, with its index
// and its parameter, as a slot of its own. The idea, and the parameters, are
// ElasticJob's shardingTotalCount and shardingItemParameters.
type Sharding struct {
	Shards      int            `json:"shards,omitempty"`       // 0: the job is not sharded, and is one slot itself
	ShardParams map[int]string `json:"shard_params,omitempty"` // by index; a shard may have none
}

// Equal reports whether both divide a job in the same way.
func (s Sharding) Equal(other Sharding) bool {
	return s.Shards == other.Shards && maps.Equal(s.ShardParams, other.ShardParams)
}

// Slots lists the slots of a job that is divided so, by index.
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

// Check reports, as a *job.FieldError, what is wrong with it.
func (s Sharding) Check() error { return job.CheckShards(s.Shards, s.ShardParams) }

// Layout is the sharding that a job's ticks have, as long as that is not what
// its spec asks for, and since when. A change takes effect between two ticks:
// those up to Until, which some shard has claimed already, are run by all
// shards of this layout, and when the last has ended the next layout begins.
type Layout struct {
	Sharding
	Since int64 `json:"since,omitempty"` // Unix milliseconds: ticks up to here are an earlier layout's
	Until int64 `json:"until,omitempty"` // the last tick of a layout that ends; 0: not known yet
}

// sharding is the one that the job asks for.
func (s Spec) sharding() Sharding {
	return Sharding{Shards: s.Job.Shards, ShardParams: s.Job.ShardParameters}
}

// ActiveLayout is the layout in which the job's ticks are run now.
func (s Spec) ActiveLayout() Layout {
	if s.Layout == nil {
		return Layout{Sharding: s.sharding()}
	}
	return *s.Layout
}

// Resizing reports whether the layout is to be replaced by the one that the
// spec asks for.
func (s Spec) Resizing() bool { return !s.ActiveLayout().Equal(s.sharding()) }

// layoutOver is the layout of s when it is written over old.
func (s Spec) layoutOver(old Spec) *Layout {
	layout := old.ActiveLayout()
	if layout.Equal(s.sharding()) {
		layout.Until = 0 // it goes on
		if layout.Since == 0 {
			return nil
		}
	}
	return &layout
}

// Resized is s when the layout that ended with its tick Until has done its
// work.
func (s Spec) Resized() Spec {
	s.Layout = &Layout{Sharding: s.sharding(), Since: s.ActiveLayout().Until}
	return s
}

// ShardsBegin is up to when no tick is that of a shard whose nodes are made now:
// the ticks of its layout begin later, and all shards are done with those up to
// complete, which a shard that a hand has deleted must not run again. The spec
// was read from a node last written at mtime.
func (s Spec) ShardsBegin(mtime time.Time, complete Complete) int64 {
	return max(s.SinceOr(mtime), s.ActiveLayout().Since, complete.Tick)
}

// ShardSlot names a slot of a sharded job: a slot has the name of its shard.
func ShardSlot(name string, shard int) string { return job.ShardName(name, shard) }

// SplitSlot takes a slot's name apart; sharded is false for a job that is a
// slot itself.
func SplitSlot(slot string) (name string, shard int, sharded bool) { return job.SplitShard(slot) }

// ParseShard reads the name of a shard's node: "3", and neither "03" nor "-1", which only a hand
// can have written.
func ParseShard(name string) (shard int, ok bool) {
	shard, err := strconv.Atoi(name)
	return shard, err == nil && shard >= 0 && strconv.Itoa(shard) == name
}

// JobOfSlot is the job that a slot belongs to.
func JobOfSlot(slot string) string {
	name, _, _ := SplitSlot(slot)
	return name
}

package zkrec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxShards is the largest number of shards of a job.
const MaxShards = 1024

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
func (s Sharding) Slots(job string) []string {
	if s.Shards == 0 {
		return []string{job}
	}
	slots := make([]string, s.Shards)
	for k := range slots {
		slots[k] = ShardSlot(job, k)
	}
	return slots
}

// Check reports, as a *FieldError, what is wrong with it.
func (s Sharding) Check() error {
	if s.Shards < 0 || s.Shards > MaxShards {
		return &FieldError{"Shards", s.Shards, fmt.Errorf("is out of range, want 1 to %d", MaxShards)}
	}
	for _, k := range slices.Sorted(maps.Keys(s.ShardParams)) {
		switch {
		case s.Shards == 0:
			return &FieldError{"ShardParameters", k, errors.New("is a parameter, but the job has no shards")}
		case k < 0 || k >= s.Shards:
			return &FieldError{"ShardParameters", k, fmt.Errorf("is no shard, want 0 to %d", s.Shards-1)}
		}
	}
	return nil
}

// Layout is the sharding that a job's ticks have, as long as that is not what
// its spec asks for, and since when. A change takes effect between two ticks:
// those up to Until, which some shard has claimed already, are run by all
// shards of this layout, and when the last has ended the next layout begins.
type Layout struct {
	Sharding
	Since int64 `json:"since,omitempty"` // Unix milliseconds: ticks up to here are an earlier layout's
	Until int64 `json:"until,omitempty"` // the last tick of a layout that ends; 0: not known yet
}

// ActiveLayout is the layout in which the job's ticks are run now.
func (s Spec) ActiveLayout() Layout {
	if s.Layout == nil {
		return Layout{Sharding: s.Sharding}
	}
	return *s.Layout
}

// Resizing reports whether the layout is to be replaced by the one that the
// spec asks for.
func (s Spec) Resizing() bool { return !s.ActiveLayout().Equal(s.Sharding) }

// layoutOver is the layout of s when it is written over old.
func (s Spec) layoutOver(old Spec) *Layout {
	layout := old.ActiveLayout()
	if layout.Equal(s.Sharding) {
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
	s.Layout = &Layout{Sharding: s.Sharding, Since: s.ActiveLayout().Until}
	return s
}

// ShardsBegin is up to when no tick is that of a shard whose nodes are made now:
// the ticks of its layout begin later, and all shards are done with those up to
// complete, which a shard that a hand has deleted must not run again. The spec
// was read from a node last written at mtime.
func (s Spec) ShardsBegin(mtime time.Time, complete Complete) int64 {
	return max(s.SinceOr(mtime), s.ActiveLayout().Since, complete.Tick)
}

// ShardSlot names a slot of a sharded job, as it is shown everywhere: "job[3]".
func ShardSlot(job string, shard int) string { return job + "[" + strconv.Itoa(shard) + "]" }

// SplitSlot takes a slot's name apart; sharded is false for a job that is a
// slot itself.
func SplitSlot(slot string) (job string, shard int, sharded bool) {
	open := strings.LastIndexByte(slot, '[')
	if open <= 0 || !strings.HasSuffix(slot, "]") {
		return slot, 0, false
	}
	shard, ok := ParseShard(slot[open+1 : len(slot)-1])
	if !ok {
		return slot, 0, false
	}
	return slot[:open], shard, true
}

// ParseShard reads the name of a shard's node: "3", and neither "03" nor "-1", which only a hand
// can have written.
func ParseShard(name string) (shard int, ok bool) {
	shard, err := strconv.Atoi(name)
	return shard, err == nil && shard >= 0 && strconv.Itoa(shard) == name
}

// JobOfSlot is the job that a slot belongs to.
func JobOfSlot(slot string) string {
	job, _, _ := SplitSlot(slot)
	return job
}

// CheckJobName is CheckName for a job, whose name must not look like that of a
// shard.
func CheckJobName(name string) error {
	if job, shard, sharded := SplitSlot(name); sharded {
		return fmt.Errorf("is the name of shard %d of a job %q", shard, job)
	}
	return CheckName(name)
}

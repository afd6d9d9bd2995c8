package ticks

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Settled reports whether a slot that ends with job.To has nothing left to do:
// every tick is accounted for, and none is to be run again.
func Settled(job Job, r Record) bool {
	v := View{Job: job, Record: r}
	return !r.Open() && r.NextAttempt == "" && job.nextTick(v.base()).IsZero()
}

// Shard is what the records of one shard say.
type Shard struct {
	Record  Record
	History zkrec.History // as old as the record, or newer
}

// Completion is a tick that all shards are done with.
type Completion struct {
	Tick   int64
	Shards []Entry // the last of each, by index; only with Tick where the history does not go back that far
}

// Completed lists, in their order, the ticks later than the given one that all
// shards are done with. It leaves out those that no shard has run.
func Completed(shards []Shard, later int64) (list []Completion) {
	through := shards[0].done()
	for _, s := range shards[1:] {
		through = min(through, s.done())
	}
	ran := make(map[int64]bool)
	note := func(run zkrec.Run) {
		if run.RunID != "" && run.Manual == "" && run.Tick > later && run.Tick <= through {
			ran[run.Tick] = true
		}
	}
	for _, s := range shards {
		note(s.Record.Run)
		for _, e := range s.History.Entries {
			note(e.Run)
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(ran)) {
		c := Completion{Tick: tick}
		for _, s := range shards {
			c.Shards = append(c.Shards, s.outcome(tick))
		}
		list = append(list, c)
	}
	return list
}

// done is up to when the ticks of the shard have their last entry.
func (s Shard) done() int64 {
	r := s.Record
	if r.Manual == "" && (r.Open() || r.NextAttempt != "") {
		return r.Tick - 1
	}
	return r.Watermark
}

// outcome is the last that is known of a tick.
func (s Shard) outcome(tick int64) Entry {
	for _, e := range slices.Backward(s.History.Entries) {
		if e.Manual == "" && e.Tick <= tick && tick <= e.Last() {
			return e
		}
	}
	if s.Record.Tick == tick && s.Record.Manual == "" {
		return Entry{Run: s.Record.Run}
	}
	return Entry{Run: zkrec.Run{Tick: tick}}
}

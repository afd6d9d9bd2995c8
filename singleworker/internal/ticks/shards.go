package ticks

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Settled reports whether a slot whose ticks end with job.To is finished: every
// tick is accounted for and no run is open or to be repeated.
func Settled(job Job, r Record) bool {
	job = job.By(r)
	v := View{Job: job, Record: r, Now: job.Since} // by which all of its former schedules have ended
	return r.Finished() && job.nextTick(v.base()).IsZero() && !v.formerMissed().Change
}

// Shard holds the records of one shard.
type Shard struct {
	Record  Record
	History zkrec.History // read after Record, so at least as recent
}

// Completion is a tick that all shards have finished.
type Completion struct {
	Tick   int64   // Unix milliseconds
	Shards []Entry // the last of each, by index; only Tick is set where the history does not go back that far
}

// Completed lists, in order, the ticks after the given one that all shards have
// finished and at least one has run. One that BeforeTick has refused was run by none.
func Completed(shards []Shard, later int64) (list []Completion) {
	watermark := shards[0].done()
	for _, s := range shards[1:] {
		watermark = min(watermark, s.done())
	}
	ran := make(map[int64]bool)
	note := func(run zkrec.Run) {
		if run.RunID != "" && run.Manual == "" && run.State != history.StateRefused && run.Tick > later && run.Tick <= watermark {
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

// done is the time, in Unix milliseconds, up to which the shard's ticks are final.
func (s Shard) done() int64 {
	r := s.Record
	switch {
	case r.Held.NextAttempt != "":
		return r.Held.Tick - 1
	case r.Manual == "" && !r.Finished():
		return r.Tick - 1
	}
	return r.Watermark
}

// outcome is the last known entry of a tick.
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

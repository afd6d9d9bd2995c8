package ticks

import (
	"cmp"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Gate tells which ticks have begun of a job whose first shard calls BeforeTick, by that shard's
// records. Other shards run no tick that has not. That a tick has begun never changes, so a gate
// that is old makes a shard wait for longer, and run nothing that it must not. The zero Gate says
// nothing: every tick waits. It is not changed. A job's parents are such a gate for it, see AllOf.
type Gate struct {
	// Attempt is the connection of an instance in which it was read. Servers that have lost
	// transactions may have lost the beginning of a tick, which then lets nothing begin.
	Attempt int

	done  int64 // the first shard is done with every tick up to here; those after it may still begin
	fates []fate

	parent  string        // whose records these are, if they are a parent's
	history zkrec.History // of a parent
	parents []*Gate       // of a child
}

// fate is the state of a tick that the first shard ran, by its records.
type fate struct {
	tick    int64
	begun   bool
	refused bool
	at      int64 // when that was known; 0 as long as it is not
}

// GateOf returns the gate that the first shard's records say: r, as it was written at a time of
// ZooKeeper's clock, and h, which was read after it.
func GateOf(r Record, h zkrec.History, written time.Time) *Gate {
	g := &Gate{done: Shard{Record: r}.done()}
	for _, e := range h.Entries {
		g.add(e.Run, 0)
	}
	g.add(r.Held.Run, 0)
	g.add(r.Run, written.UnixMilli()) // at that time, or before it, whatever the clock of that shard's owner says
	slices.SortFunc(g.fates, func(a, b fate) int { return cmp.Compare(a.tick, b.tick) })
	return g
}

// add takes in a run, of which there may be several for one tick.
func (g *Gate) add(r zkrec.Run, written int64) {
	if r.RunID == "" || r.Manual != "" {
		return
	}
	f := fate{tick: r.Tick, begun: r.Passed != 0, refused: r.State == history.StateRefused, at: r.Ended}
	if f.begun {
		f.at = max(r.Passed, written)
	}
	i := slices.IndexFunc(g.fates, func(f fate) bool { return f.tick == r.Tick })
	if i < 0 {
		g.fates = append(g.fates, f)
	} else if f.begun || !g.fates[i].begun {
		g.fates[i] = f
	}
}

// SeenSince returns g as an owner that has followed the first shard knows it: each change since
// before was known at now, by its own clock.
func (g *Gate) SeenSince(before *Gate, now time.Time) *Gate {
	seen := *g
	seen.fates = slices.Clone(g.fates)
	for i := range seen.fates {
		f := &seen.fates[i]
		if was, known := before.of(f.tick); known && was.begun == f.begun && was.refused == f.refused && was.at != 0 {
			f.at = was.at
		} else if f.at != 0 {
			f.at = now.UnixMilli()
		}
	}
	return &seen
}

// of returns the fate of a tick, if it is known.
func (g *Gate) of(tick int64) (f fate, known bool) {
	if g == nil {
		return fate{}, false
	}
	i, known := slices.BinarySearchFunc(g.fates, tick, func(f fate, tick int64) int { return cmp.Compare(f.tick, tick) })
	if known {
		f = g.fates[i]
	}
	return f, known
}

// Begun reports whether the tick has begun.
func (g *Gate) Begun(tick int64) bool {
	f, _ := g.of(tick)
	return f.begun
}

// decided is the tick up to which it is known of each whether it begins.
func (g *Gate) decided() time.Time {
	through := g.done
	for _, f := range g.fates {
		if f.begun {
			through = max(through, f.tick)
		}
	}
	return time.UnixMilli(through)
}

// Of returns the job as one of its slots has it: gate is of the first shard, or of the parents, nil
// if it is not known.
func (j Job) Of(slot string, gate *Gate) Job {
	waits := j.isChild()
	j.Gate, j.Slot = nil, slot
	if name, shard, _ := zkrec.SplitSlot(slot); !waits && j.Gated && shard > 0 {
		j.Slot = zkrec.ShardSlot(name, 0) // they are delayed alike
		waits = true
	}
	if !waits {
		return j
	}
	if j.Gate = gate; gate == nil {
		j.Gate = &Gate{}
	}
	return j
}

// mayBegin reports whether the first shard lets the slot run a tick.
func (j Job) mayBegin(t time.Time) bool { return j.Gate == nil || j.Gate.Begun(t.UnixMilli()) }

// came is when the slot could first decide on a tick: it may have waited for the first shard. For
// an owner that did not follow that, this is a time of another clock, as Record has from another
// owner.
func (j Job) came(t time.Time) time.Time {
	f, _ := j.Gate.of(t.UnixMilli())
	return Later(j.Due(t), time.UnixMilli(f.at))
}

// Waiting is the slot's first tick, up to t, of which it is not known whether it begins, or zero.
func Waiting(job Job, r Record, t time.Time) time.Time {
	if job.Gate == nil {
		return time.Time{}
	}
	tick := job.nextTick(Later(View{Job: job, Record: r}.base(), job.decided(t)))
	if job.Due(tick).After(t) {
		return time.Time{}
	}
	return tick
}

// notBegun is why a tick is not run that the first shard, or a parent, has not let begin; ok is
// false if that is not why.
func (v View) notBegun(t time.Time) (why Entry, ok bool) {
	if v.mayBegin(t) {
		return Entry{}, false
	}
	if v.isChild() {
		return v.Gate.notOK(t.UnixMilli()), true
	}
	f, known := v.Gate.of(t.UnixMilli())
	why.State, why.Reason = history.StateSkipped, history.ReasonNotBegun
	switch {
	case f.refused:
		why.Reason = history.ReasonRefused
	case !known && (len(v.Gate.fates) == 0 || t.UnixMilli() < v.Gate.fates[0].tick):
		return Entry{}, false // it may have begun: the history does not go back that far
	}
	return why, true
}

// Pass is the change that records that BeforeTick has returned nil for the tick of the run that r
// has open.
func Pass(r Record, at time.Time) Plan {
	r.Passed = at.UnixMilli()
	return Plan{Change: true, Record: r}
}

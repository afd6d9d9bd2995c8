package sim

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The basis of property 9: how the log divides each job, and hooks' news of ticks that are
// complete.

// division is how one job is divided, from its submission to its end.
type division struct {
	job      string
	spec     zkrec.Spec
	written  int64 // zxid of the spec
	now      *epoch
	ticks    map[int64]*epoch // in which a scheduled tick was claimed
	complete int64            // as the log says
}

// epoch is the time of one layout of one job.
type epoch struct {
	zkrec.Layout

	of *division
}

// completion is a call of OnTickComplete.
type completion struct {
	sid string
	at  time.Time
	singleworker.TickResult
}

// completed is a change of the record of complete ticks.
type completed struct {
	at             time.Time
	epoch          *epoch
	after, through int64          // ticks later than the first, up to the other
	sid            string         // of who wrote it
	ran            map[int64]bool // ticks that some shard has run, and that are still in a history
	told           map[int64]bool
}

// divided takes in a job's spec.
func (l *ledger) divided(job string, txn *zkdev.Txn, spec zkrec.Spec) {
	layout := spec.ActiveLayout()
	d := l.divisions[job]
	if d == nil {
		d = &division{job: job, spec: spec, written: txn.Zxid, ticks: make(map[int64]*epoch)}
		d.now = &epoch{layout, d}
		l.divisions[job] = d
		return
	}
	l.rescheduled(job, txn, d.spec, spec)
	d.spec, d.written = spec, txn.Zxid
	last := d.now
	if layout.Since == last.Since && layout.Equal(last.Sharding) {
		last.Until = layout.Until
		return
	}
	if layout.Since != last.Until || last.Until == 0 {
		l.violatef(9, job, txn.Time, "the layout %+v follows %+v", layout, last.Layout)
	}
	d.now = &epoch{layout, d}
	l.layouts++
	next := layout.Slots(job)
	terms, _ := l.termsOf(spec, layout.Since) // which can be read: rescheduled has said so
	for _, slot := range last.Slots(job) {
		acc := l.accounts[slot]
		if acc == nil {
			l.violatef(9, slot, txn.Time, "the next layout begins at %s, and its tick node was not there", clockMs(layout.Since))
			continue
		}
		open := acc.next(acc.record.Watermark) <= layout.Since
		if rec := acc.record; open || !rec.Finished() || rec.Watermark > layout.Since {
			l.violatef(9, slot, txn.Time, "the next layout begins at %s, and it is at %+v", clockMs(layout.Since), rec)
		}
		if !slices.Contains(next, slot) {
			acc.leave(layout.Since)
		}
	}
	for _, slot := range next {
		acc := l.accounts[slot]
		if acc == nil {
			continue // its nodes are to be made
		}
		acc.belongs = true
		switch {
		case acc.born == txn.Zxid: // and are, in this very transaction
			acc.terms = terms
		case acc.term().until != 0: // they were to be deleted
			acc.terms = append(acc.terms, terms...)
		}
	}
}

// noteLayout takes in a claim, which is one of the layout in effect: package ledger judges that.
func (l *ledger) noteLayout(slot string, rec zkrec.Tick) {
	d := l.divisions[zkrec.JobOfSlot(slot)]
	l.epochs[rec.RunID] = d.now
	if rec.Manual == "" && !isAlways(&d.spec) { // the runs of its shards have nothing to do with each other
		d.ticks[rec.Tick] = d.now
	}
}

// checkComplete verifies a record of complete ticks.
func (l *ledger) checkComplete(job string, txn *zkdev.Txn) {
	record, _ := zkrec.ParseComplete(txn.Data)
	d := l.divisions[job]
	c := &completed{
		at: txn.Time, epoch: d.now, after: max(d.complete, d.now.Since), through: record.Tick,
		sid: l.joined[txn.Session], ran: make(map[int64]bool), told: make(map[int64]bool),
	}
	if c.through <= c.after {
		l.violatef(9, job, txn.Time, "ticks up to %s are complete, after %s", clockMs(c.through), clockMs(c.after))
	}
	d.complete = record.Tick
	l.completed[job] = append(l.completed[job], c)
	for _, slot := range d.now.Slots(job) {
		acc := l.accounts[slot]
		if acc == nil || acc.done() < record.Tick {
			l.violatef(9, slot, txn.Time, "it is not done with %s, which is said to be complete", clockMs(record.Tick))
			continue
		}
		for _, e := range acc.history.Entries {
			if e.RunID != "" && e.Manual == "" && e.Tick > c.after && e.Tick <= c.through {
				c.ran[e.Tick] = true
			}
		}
	}
}

// done is the tick up to which none is to be run, or run again.
func (a *account) done() int64 {
	switch rec := a.record; {
	case rec.Held.NextAttempt != "":
		return rec.Held.Tick - 1
	case rec.Manual == "" && !rec.Finished():
		return rec.Tick - 1
	}
	return a.record.Watermark
}

// checkDivisions verifies the rest of property 9, when all of the log is read.
func (l *ledger) checkDivisions() {
	l.checkEpochs()
	for _, told := range l.told {
		l.checkTold(told)
	}
	for job, d := range l.divisions {
		l.checkCalmTicks(job, d)
	}
	for job, list := range l.completed {
		for _, c := range list {
			for tick := range c.ran {
				if !c.told[tick] && !l.interrupted(c) {
					l.violatef(9, job, c.at, "%s has recorded that %s is complete, but no hook was called", c.sid, clockMs(tick))
				}
			}
		}
	}
}

// checkCalmTicks verifies that ticks are recorded as complete: those that all shards were done with
// when nothing happened.
func (l *ledger) checkCalmTicks(job string, d *division) {
	for tick, e := range d.ticks {
		calm := func(slot string) bool { return l.isCalm(slot, time.UnixMilli(tick)) }
		if e == d.now && e.Shards > 0 && tick > d.complete && !slices.ContainsFunc(e.Slots(job), func(slot string) bool { return !calm(slot) }) {
			l.violatef(9, job, time.UnixMilli(tick), "all shards are done with the tick, and it is not recorded as complete; %s is", clockMs(d.complete))
		}
	}
}

// checkEpochs verifies that no run begins while one of another layout has the right to run. The
// design makes the same exceptions as for property 1.
func (l *ledger) checkEpochs() {
	last := make(map[*division]map[*epoch]*swtest.Run) // the runs so far that end last
	for k := range l.runs {
		run := &l.runs[k]
		e := l.epochs[run.ID]
		if e == nil {
			continue // which is property 3's
		}
		if last[e.of] == nil {
			last[e.of] = make(map[*epoch]*swtest.Run)
		}
		for other, before := range last[e.of] {
			if other != e && before.End().After(run.Started) && !l.excused(before.Instance.Name, run.Started) {
				l.violatef(9, run.Job, run.Started, "run %s of %+v begins, and run %s of %+v has the right to run until %s",
					run.ID, e.Layout, before.ID, other.Layout, clock(before.End()))
			}
		}
		if before := last[e.of][e]; before == nil || run.End().After(before.End()) {
			last[e.of][e] = run
		}
		if run.Shard.Total != max(1, e.Shards) || run.Shard.Parameter != e.ShardParams[run.Shard.Index] {
			l.violatef(9, run.Job, run.Started, "run %s is told that it is %+v, of %+v", run.ID, run.Shard, e.Layout)
		}
	}
}

// recorded is which of a job's records of complete ticks a hook tells of, -1 if none.
func (l *ledger) recorded(told completion) int {
	tick := told.Tick.UnixMilli()
	return slices.IndexFunc(l.completed[told.Job], func(c *completed) bool {
		return c.after < tick && tick <= c.through && !told.at.Before(c.at) && c.sid == told.sid
	})
}

// checkTold verifies a call of a hook.
func (l *ledger) checkTold(told completion) {
	tick := told.Tick.UnixMilli()
	list := l.completed[told.Job]
	k := l.recorded(told)
	switch {
	case k < 0 && l.lost.answers(told.at, told.Job, told.Tick):
		return
	case k < 0:
		l.violatef(9, told.Job, told.at, "%s is told that %s is complete, which it has not recorded", told.sid, clock(told.Tick))
		return
	case list[k].told[tick]:
		l.violatef(9, told.Job, told.at, "%s is told again that %s is complete", told.sid, clock(told.Tick))
	}
	list[k].told[tick] = true
	l.complete++
	e := list[k].epoch
	if len(told.Shards) != e.Shards {
		l.violatef(9, told.Job, told.at, "%s is told that %s is complete with %d shards, of %+v", told.sid, clock(told.Tick), len(told.Shards), e.Layout)
		return
	}
	for shard, outcome := range told.Shards {
		run := l.started[outcome.RunID]
		switch {
		case outcome.RunID == "": // not run, or the history has nothing of it any more
			continue
		case l.epochs[outcome.RunID] != e || !outcome.Tick.Equal(told.Tick):
		case run == nil: // it was claimed, and its handler not called
			if outcome.State != history.StateOK {
				continue
			}
		case outcome.State == history.StateOK && run.Err == nil && run.Shard == singleworker.Shard{Index: shard, Total: e.Shards, Parameter: e.ShardParams[shard]},
			outcome.State == history.StateInterrupted, outcome.State == history.StateLost,
			outcome.State != history.StateOK && run.Err != nil:
			continue
		}
		l.violatef(9, told.Job, told.at, "%s is told of shard %d at %s: %+v, of %+v, which is not how it was", told.sid, shard, clock(told.Tick), outcome, e.Layout)
	}
}

// interrupted says that who recorded complete ticks died, or lost the shard that it did so for,
// before it could tell: it has hardly sent a heartbeat for it since. That counts the time with a
// connection alone.
func (l *ledger) interrupted(c *completed) bool {
	slot := zkrec.ShardSlot(c.epoch.of.job, 0)
	for _, r := range l.reigns[slot] {
		if r.sid != c.sid || r.at.After(c.at) || r.endBy != 0 && r.end.Before(c.at) {
			continue
		}
		return r.beatsAfter(c.at) < beatsOfTwoSessions
	}
	return false
}

const beatsOfTwoSessions = 8

// beatsAfter counts the heartbeats.
func (r *reign) beatsAfter(t time.Time) int {
	later := slices.IndexFunc(r.beats, func(beat time.Time) bool { return beat.After(t) })
	if later < 0 {
		return 0
	}
	return len(r.beats) - later
}

package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Property 19: jobs after jobs.

// outcomes are the ticks of a slot as they are on record, for the jobs that run after it.
type outcomes struct {
	ok     map[int64]time.Time // when it was known of a tick that it had been run ok
	failed map[int64]bool      // ticks of which an entry says something else
}

// learn takes in an entry.
func (o *outcomes) learn(tick int64, e zkrec.Entry, at time.Time) {
	switch _, known := o.ok[tick]; {
	case e.Manual != "" && e.Past() == "": // of no tick
	case e.State != history.StateOK:
		o.failed[tick] = true
	case !known:
		o.ok[tick] = at
	}
}

// timeless is the schedule of a job of which a parent is not there, or can be none.
var timeless = func() *cronexpr.Schedule {
	sched, err := cronexpr.Parse("@after", time.UTC)
	if err != nil {
		panic(err)
	}
	return sched
}()

// ancestors lists the jobs that come before a job, by their former schedules, too: also itself, if
// jobs wait for each other.
func (l *ledger) ancestors(j singleworker.Job) []string {
	if len(j.After) == 0 {
		return nil
	}
	names, err := zkrec.Ancestors("", func(name string) []string {
		if name == "" {
			return j.After
		}
		if of := l.model.Jobs[name]; of != nil {
			return of.Spec.ParentNames()
		}
		return nil
	})
	if err != nil {
		panic(err) // no seed has so many jobs
	}
	return names
}

// reparenting takes in that a job is to change, before it does, for those that come after it.
func (l *ledger) reparenting(name string, at time.Time) {
	for slot := range l.vigils {
		if j := l.model.Jobs[zkrec.JobOfSlot(slot)]; j != nil && slices.Contains(l.ancestors(j.Spec.Job), name) {
			l.changes(slot, at)
		}
	}
}

// reparented takes in that a job has changed, is there, or is gone: those that come after it may
// have other ticks.
func (l *ledger) reparented(name string, txn *zkdev.Txn) {
	l.counts.reparented += l.retimed(txn, func(of singleworker.Job) bool { return slices.Contains(l.ancestors(of), name) })
	j := l.model.Jobs[name]
	if j == nil {
		return
	}
	if slices.Contains(l.ancestors(j.Spec.Job), name) {
		l.tangled++
	}
	for _, child := range l.model.Jobs {
		if slices.Contains(child.Spec.Job.After, name) && j.Spec.CheckParent() != nil {
			l.barren++
			break
		}
	}
}

// deadline is when a tick of a slot is due, and waits for nothing any more; zero if it may wait for
// ever.
func (l *ledger) deadline(slot string, spec *zkrec.Spec, sched *cronexpr.Schedule, tick time.Time) time.Time {
	switch {
	case len(spec.Job.After) == 0:
		return l.dueAt(slot, spec, sched, tick)
	case spec.Job.Deadline > 0:
		return tick.Add(spec.Job.Deadline)
	}
	return sched.Next(tick)
}

// haveRun reports whether all parents of a job are known to have run a tick ok since a time, and
// whether that still is in the history of each.
func (l *ledger) haveRun(spec *zkrec.Spec, tick int64, since time.Time) (all, kept bool) {
	all, kept = true, true
	for _, name := range spec.Job.After {
		acc, j := l.accounts[name], l.model.Jobs[name]
		if acc == nil || j == nil {
			return false, false
		}
		at, ok := acc.ok[tick]
		all = all && ok && !at.After(since)
		kept = kept && slices.ContainsFunc(j.History.Entries, func(e zkrec.Entry) bool { return e.Tick == tick && e.State == history.StateOK })
	}
	return all, kept
}

// checkParents verifies the rows that a change of the history has added, of ticks that were not run
// because of the job's parents.
func (l *ledger) checkParents(acc *account, txn *zkdev.Txn) {
	spec := &l.model.Jobs[zkrec.JobOfSlot(acc.slot)].Spec
	for _, tick := range acc.added {
		row := acc.rows[tick][len(acc.rows[tick])-1]
		if !isOfParents(row) {
			continue
		}
		l.withheld++
		if all, kept := l.haveRun(spec, tick, txn.Time.Add(-stale)); all && kept {
			l.violatef(19, acc.slot, txn.Time, "tick %s is not run, and all of %v had run it long before: %s, %s", clockMs(tick), spec.Job.After,
				row.Reason, row.Error)
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(row.Error, " had not run it by the deadline"), ":")
		parent := l.accounts[name]
		switch until := l.deadline(acc.slot, spec, acc.term().sched, time.UnixMilli(tick)); {
		case row.Reason == history.ReasonParentForgotten:
		case parent == nil || !slices.Contains(spec.Job.After, name):
			l.violatef(19, acc.slot, txn.Time, "tick %s is not run because of %q, which is no parent: %s", clockMs(tick), name, row.Error)
		case row.Reason == history.ReasonParent && !parent.failed[tick]:
			l.violatef(19, acc.slot, txn.Time, "tick %s is not run because of %s, of which nothing but ok is on record: %s", clockMs(tick), name, row.Error)
		case row.Reason == history.ReasonParentLate && (until.IsZero() || txn.Time.Before(until)) && !l.clocksMayBeOff:
			l.violatef(19, acc.slot, txn.Time, "tick %s is given up before its deadline, %s: %s", clockMs(tick), clock(until), row.Error)
		}
	}
}

// isOfParents reports whether a tick was not run because of the job's parents.
func isOfParents(row zkrec.Entry) bool {
	return slices.Contains([]history.Reason{history.ReasonParent, history.ReasonParentLate, history.ReasonParentForgotten}, row.Reason)
}

// couldRun reports whether nothing kept a job from running a tick: it has no parents, or all of
// them had run it well before its deadline.
func (l *ledger) couldRun(acc *account, tick int64) bool {
	j := l.model.Jobs[zkrec.JobOfSlot(acc.slot)]
	if j == nil || len(j.Spec.Job.After) == 0 {
		return true
	}
	until := l.deadline(acc.slot, &j.Spec, acc.term().sched, time.UnixMilli(tick))
	all, _ := l.haveRun(&j.Spec, tick, until.Add(-settledWithin))
	return all
}

// checkAfter verifies that no handler of a job begins a tick before each of the job's parents has
// ended a run of it without an error.
func (l *ledger) checkAfter() {
	type of struct {
		job  string
		tick int64
	}
	ended := make(map[of]time.Time) // the first
	for k := range l.runs {
		run := &l.runs[k]
		key := of{run.Job, run.Tick.UnixMilli()}
		if at, known := ended[key]; run.Err == nil && !run.Ended.IsZero() && (!known || run.Ended.Before(at)) {
			ended[key] = run.Ended
		}
	}
	for k := range l.runs {
		run := &l.runs[k]
		for _, name := range l.after[run.ID] {
			if at, known := ended[of{name, run.Tick.UnixMilli()}]; !known || run.Started.Before(at) {
				l.violatef(19, run.Job, run.Started, "run %s of %s begins, and %s has not ended it before: %s", run.ID, clock(run.Tick), name, clock(at))
			}
		}
	}
}

// lateTick is the last tick of a slot that was due, and could wait for nothing any more, at a time.
func (w *world) lateTick(j *swtest.Job, sched *cronexpr.Schedule, at time.Time) time.Time {
	tick := sched.Prev(at)
	for !tick.IsZero() {
		if until := w.ledger.deadline(j.Name, &j.Spec, sched, tick); !until.IsZero() && !until.After(at) {
			break
		}
		tick = sched.Prev(tick)
	}
	return tick
}

package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The records that this package decides on.
type (
	Record = zkrec.Tick
	Entry  = zkrec.Entry
	Policy = job.Job // of which the rules read the policies
)

// OnTime is how late a tick may be to be run whatever the misfire policy is:
// the time in which an owner hands a slot over.
const OnTime = time.Second

// View is all that a decision rests on.
type View struct {
	Job
	Record Record
	Now    time.Time

	// The owner that asks.
	SID        string
	Token      int64
	OwnedSince time.Time
	// RunID is for the run that the decision may open: one that never was used.
	RunID string
	// Active names the run that goes on in this instance, whatever the record
	// says of it.
	Active   string
	Requests []Request // in their order
}

// Plan is a decision: a change of the record that is to be written as a whole,
// or none.
type Plan struct {
	Change  bool
	Record  Record
	Entries []Entry // for the history, written together with the record
	Opens   bool    // Record.RunID is to be started once the change is written
	Request string  // done with, to be removed together with the change; End cannot know whether it still is there
	// Wake is when to decide again if nothing happens before, apart from the
	// schedule's ticks; zero: never.
	Wake time.Time
}

// Next decides what the owner does now.
func Next(v View) Plan {
	v.Policy = v.Policy.WithDefaults()
	switch {
	case v.Active != "":
		return v.overlap()
	case v.Record.Open():
		return v.abandoned()
	}
	var plan Plan
	// A pause holds everything back but what an operator asks for by hand, and the
	// record of what a replaced schedule has missed: it might be replaced once more.
	if v.Record.NextAttempt != "" && !v.held(v.Record.Run) {
		var decided bool
		if plan, decided = v.again(); decided {
			return plan
		}
	}
	if v.Paused.Covers(v.Now) {
		if former := v.formerMissed(); former.Change {
			return former
		}
		plan.Wake = v.pauseEnds()
	} else if due := v.due(); due.Change && !(due.Opens && v.manualTurn()) {
		return due
	}
	if (v.Record.NextAttempt == "" || v.held(v.Record.Run)) && len(v.Requests) > 0 {
		r := v.Requests[0]
		v.open(&plan, zkrec.Run{Tick: r.At.UnixMilli(), Manual: r.ID, Attempt: 1})
	}
	return plan
}

// manualTurn reports whether a manual run goes before the tick that is due:
// when the tick has waited for the end of another tick's run. Otherwise a job
// that is always busy would never come to its requests. A retry that the tick
// takes the place of has its place before them.
func (v View) manualTurn() bool {
	last := v.Record.Run
	return len(v.Requests) > 0 && v.Record.NextAttempt == "" && last.RunID != "" && last.Manual == "" &&
		v.Schedule.Next(v.base()).UnixMilli() <= last.Ended
}

// held reports whether a pause keeps a run's tick from being run again.
func (v View) held(run zkrec.Run) bool { return run.Manual == "" && v.Paused.Covers(v.Now) }

// open has plan open a run, which is given as far as it is not the owner's to
// fill in.
func (v View) open(plan *Plan, run zkrec.Run) {
	through := v.Record.Watermark
	if plan.Change {
		through = plan.Record.Watermark
	}
	run.RunID, run.SID, run.Token = v.RunID, v.SID, v.Token
	run.Started, run.State = v.Now.UnixMilli(), zkrec.RunRunning
	plan.Change, plan.Opens = true, true
	plan.Record = Record{Watermark: through, Run: run}
	// A tick that was to wait for the end of the last run now waits for that of this one; unless one has
	// come since and was missed, because nothing ran then.
	after := func(ms int64) time.Time { return v.nextTick(later(time.UnixMilli(through), time.UnixMilli(ms))) }
	waits, idle := after(v.busySince()), after(v.Record.Ended)
	if v.queued(waits) && !waits.After(v.Now) && (idle.IsZero() || v.Now.Sub(idle) <= OnTime) {
		plan.Record.BusySince = v.busySince()
	}
}

// overlap deals with ticks that come while a run goes on.
func (v View) overlap() Plan {
	if v.Record.RunID != v.Active {
		return Plan{} // the end of the run is the time to decide
	}
	if plan := v.formerMissed(); plan.Change || v.Paused.Covers(v.Now) {
		return plan // else the end of the pause is
	}
	if first := v.first(); !first.IsZero() {
		return v.overlapping(first)
	}
	return Plan{}
}

// abandoned deals with a run whose owner is gone without a result.
func (v View) abandoned() Plan {
	run := v.Record.Run
	run.State, run.Ended = zkrec.RunInterrupted, v.Now.UnixMilli()
	run.Error = "its owner died or lost the job before it had a result"
	plan := Plan{Change: true, Record: v.Record}
	if v.rerun(run) {
		plan.Record.Run, plan.Entries = run, []Entry{{Run: run}}
		if v.held(run) {
			plan.Record.NextAttempt, plan.Record.NextAttemptAt = zkrec.NextRerun, run.Ended
		} else {
			v.open(&plan, another(run))
		}
		return plan
	}
	run.State = zkrec.RunLost
	plan.Record.Run, plan.Entries = run, []Entry{{Run: run}}
	plan.Request = v.asked(run)
	return plan
}

// rerun reports whether the tick of an interrupted run is run again.
func (v View) rerun(run zkrec.Run) bool {
	return v.Policy.Interrupted == job.InterruptedRerun &&
		run.Attempt-run.Failures < v.Policy.MaxAttempts &&
		!v.tooOld(run) &&
		v.asked(run) == run.Manual
}

// asked is the request that a run was for, if it still is there: an operator
// may withdraw it.
func (v View) asked(run zkrec.Run) string {
	if slices.ContainsFunc(v.Requests, func(r Request) bool { return r.ID == run.Manual }) {
		return run.Manual
	}
	return ""
}

func (v View) tooOld(run zkrec.Run) bool {
	grace := v.Policy.MisfireGrace
	return grace > 0 && v.Now.Sub(time.UnixMilli(run.Tick)) > grace
}

// another is the next attempt at the tick of a run that has ended.
func another(run zkrec.Run) zkrec.Run {
	next := zkrec.Run{Tick: run.Tick, Manual: run.Manual, Attempt: run.Attempt + 1, Failures: run.Failures}
	if run.State != zkrec.RunInterrupted {
		next.Failures++
	}
	return next
}

// again deals with a tick that is to be run once more; it has nothing to
// decide when the schedule has moved on.
func (v View) again() (plan Plan, decided bool) {
	r := v.Record
	at := time.UnixMilli(r.NextAttemptAt)
	switch r.NextAttempt {
	case zkrec.NextRerun:
		if !v.rerun(r.Run) {
			// The policy has changed, or time has passed: what the history says of
			// the run is final.
			r.NextAttempt, r.NextAttemptAt = "", 0
			return Plan{Change: true, Record: r, Request: v.asked(r.Run)}, true
		}
	case zkrec.NextRetry:
		if !v.first().IsZero() || v.formerMissed().Change {
			return Plan{}, false // the next tick takes its place
		}
	}
	// A clock that was set back must not make the wait longer than it was.
	if wait := at.Sub(v.Now); wait > 0 && !v.Now.Before(time.UnixMilli(r.Ended)) {
		return Plan{Wake: at}, false
	}
	v.open(&plan, another(r.Run))
	return plan, true
}

// Outcome is how a run has ended.
type Outcome struct {
	State string // RunOK, RunFailed, RunTimedOut or RunInterrupted
	Error string
	Ended time.Time
	Final bool // not to be run again, whatever the policy
}

// End is the change that records the outcome of the run that is open in the
// record.
func End(of Job, r Record, o Outcome) Plan {
	policy := of.Policy.WithDefaults()
	r.State, r.Error, r.Ended = o.State, zkrec.CutError(o.Error), o.Ended.UnixMilli()
	switch {
	case o.Final:
	case r.State == zkrec.RunInterrupted:
		if policy.Interrupted == job.InterruptedRerun && r.Attempt-r.Failures < policy.MaxAttempts {
			r.NextAttempt, r.NextAttemptAt = zkrec.NextRerun, r.Ended
		}
	case r.State == zkrec.RunFailed || r.State == zkrec.RunTimedOut:
		at := o.Ended.Add(backoff(policy, r.Failures))
		next := of.nextTick(time.UnixMilli(r.Tick))
		if r.Manual == "" && r.Failures < policy.Retries && (next.IsZero() || at.Before(next)) {
			r.NextAttempt, r.NextAttemptAt = zkrec.NextRetry, at.UnixMilli()
		}
	}
	plan := Plan{Change: true, Record: r, Entries: []Entry{{Run: r.Run}}}
	if r.NextAttempt == "" {
		plan.Request = r.Manual
	}
	return plan
}

// maxBackoff bounds the doubling.
const maxBackoff = 24 * time.Hour

func backoff(p Policy, failures int) time.Duration {
	d := max(p.Backoff, 0)        // job.NoBackoff is none
	for range min(failures, 64) { // a hand may have written any number
		if d < maxBackoff {
			d = min(2*d, maxBackoff)
		}
	}
	return d
}

// Overdue returns the first tick that is not accounted for although it should
// be, or zero, and when to look again. A run that goes on excuses all; that the
// job is about to be divided anew excuses nothing, however long that takes.
func Overdue(job Job, r Record, running bool, now time.Time) (tick, lookAgain time.Time) {
	v := View{Job: job, Record: r, Now: now}
	alarmAfter := job.Policy.WithDefaults().AlarmAfter
	first := job.Schedule.Next(v.base())
	if first.IsZero() || alarmAfter < 0 { // job.NoAlarm
		return time.Time{}, time.Time{}
	}
	from := first
	// A tick that was not overdue when a pause began has until after its end.
	if p := job.Paused; p.Since != 0 && first.Add(alarmAfter).After(time.UnixMilli(p.Since)) {
		switch until := time.UnixMilli(p.Until); {
		case p.Until == 0:
			return time.Time{}, now.Add(alarmAfter)
		case first.Before(until):
			from = until
		}
	}
	switch deadline := from.Add(alarmAfter); {
	case now.Before(deadline):
		return time.Time{}, deadline
	case running:
		return time.Time{}, now.Add(alarmAfter)
	default:
		return first, now.Add(alarmAfter)
	}
}

package ticks

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The records that this package decides on.
type (
	Record = zkrec.Tick
	Entry  = zkrec.Entry
	Policy = job.Job // the rules read only its policies
)

// OnTime is the lateness up to which a tick is not a misfire: it runs whatever the
// misfire policy says. It covers the handover of a slot.
const OnTime = time.Second

// View is the complete input of a decision.
type View struct {
	Job
	Record Record
	Now    time.Time

	// The deciding owner.
	SID        string
	Token      int64
	OwnedSince time.Time
	TakenFrom  string // the former owner, if it had not claimed in time what this decision may claim first
	// RunID is a fresh ID for the run that the decision may open.
	RunID string
	// Active is the ID of the run in progress in this instance, if any, even if the
	// record no longer names it.
	Active   string
	Requests []Request // pending manual runs, oldest first
	// Stop asks for the end of the run that the record has open; zero if nobody has.
	Stop Request

	// Full means that this instance may start no run now: a decision that opens one is to be made
	// again when it may. WaitsSince is when that was first so for this slot, zero if nothing waits.
	Full       bool
	WaitsSince time.Time
	// Limited means that the slot waits for places of a limit.
	Limited bool
}

// Plan is a decision: a change to be written atomically, or no change.
type Plan struct {
	Change  bool
	Record  Record
	Entries []Entry // for the history, written together with the record
	Opens   bool    // Record.RunID is to be started once the change is written
	Request string  // ID of a completed request, to be removed with the change; after End it may be gone already
	// Backfill is the request from which the run takes its own, in the same change; nil if it waits by
	// itself, or there is none.
	Backfill *Request
	// Wake is when to decide again even if nothing has happened, in addition to
	// the schedule's ticks. Zero means never.
	Wake time.Time
}

// Next decides the owner's next step at v.Now.
func Next(v View) Plan {
	policy := v.Policy.WithDefaults()
	v.Policy = &policy
	v.Job = v.By(v.Record)
	plan := v.next()
	for _, due := range []time.Time{v.delayed(), v.waitEnds()} {
		if !plan.Change && !due.IsZero() && (plan.Wake.IsZero() || due.Before(plan.Wake)) {
			plan.Wake = due
		}
	}
	return plan
}

// next is the next step, but for when a tick is due that is delayed.
func (v View) next() Plan {
	switch {
	case v.Active != "":
		return v.overlap()
	case v.Record.Open():
		return v.abandoned()
	case v.Schedule.Always():
		return v.always()
	}
	if outlived := v.outlived(); outlived != "" {
		return Plan{Change: true, Record: v.Record, Request: outlived}
	}
	var plan Plan
	// A pause holds back everything except manual runs and the record of ticks that a replaced
	// schedule missed: the schedule might be replaced once more.
	again := v.Record.Again()
	waits := again.NextAttempt != "" && v.held(again.Run)
	if again.NextAttempt != "" && !waits {
		var decided bool
		if plan, decided = v.nextAttempt(); decided {
			return plan
		}
	}
	if v.pausedNow() != nil {
		if former := v.formerMissed(); former.Change {
			return former
		}
		plan.Wake = v.pauseEnds()
	} else if due := v.due(); due.Change && !(due.Opens && v.manualTurn()) {
		return due
	}
	if next, backfill := v.request(); (again.NextAttempt == "" || waits) && next != nil {
		v.open(&plan, next.Run(next.ID))
		plan.Backfill = backfill
	}
	return plan
}

// held reports whether a pause holds back the next attempt at a run's tick.
func (v View) held(run zkrec.Run) bool { return run.Manual == "" && v.pausedNow() != nil }

// open adds a new run to the plan. The caller sets the tick, the request and the
// attempt, open the rest.
func (v View) open(plan *Plan, run zkrec.Run) {
	watermark := v.Record.Watermark
	if plan.Change {
		watermark = plan.Record.Watermark
	}
	run.RunID, run.SID, run.Token = v.RunID, v.SID, v.Token
	run.Started, run.State = v.Now.UnixMilli(), history.StateRunning
	if v.Record.Token != v.Token { // the first run of this ownership
		run.TakenFrom = v.TakenFrom
	}
	if !v.WaitsSince.IsZero() {
		run.Delayed = max(v.Now.Sub(v.WaitsSince).Milliseconds(), 0) // the clock may have been set back
	}
	plan.Change, plan.Opens = true, true
	plan.Record = v.Record.Begin(watermark, run)
	v.count(&plan.Record, run)
	if run.Manual != "" { // what a pause holds back waits beside it
		if plan.Record.Held = v.Record.Again(); plan.Record.Held.Manual != "" {
			plan.Record.Held = v.Record.Held
		}
	}
	// A tick queued behind the last run is now queued behind this one, unless a later tick came while
	// nothing ran and was missed. As long as ticks from before the runs wait to be run, those that
	// come wait behind them, whatever runs: if they were missed ticks, too, a job whose runs take
	// longer than its period would never catch up.
	after := func(ms int64) time.Time {
		return v.nextTick(Later(time.UnixMilli(watermark), v.through(time.UnixMilli(ms))))
	}
	next, waits, idle := after(0), after(v.busySince()), after(v.Record.Ended)
	if v.queued(waits) && !v.Due(waits).After(v.Now) && (idle.IsZero() || v.Now.Sub(v.Due(idle)) <= OnTime || next.Before(waits)) {
		plan.Record.BusySince = v.busySince()
	}
}

// overlap decides on ticks that come while a run is in progress.
func (v View) overlap() Plan {
	if v.Record.RunID != v.Active {
		return Plan{} // decide when the run ends
	}
	if plan := v.formerMissed(); plan.Change || v.pausedNow() != nil {
		return plan // or decide when the pause ends
	}
	if first := v.first(); !first.IsZero() {
		return v.overlapping(first)
	}
	return Plan{}
}

// abandoned decides on a run that the record has open but that is not in progress here.
func (v View) abandoned() Plan {
	run := v.Record.Run
	run.State, run.Ended = history.StateInterrupted, v.Now.UnixMilli()
	run.Error = "owner died or lost the job before the run had a result"
	run.Stopped(v.Stop.Request)
	plan := Plan{Change: true, Record: v.Record}
	// A run that began when the job always ran is for no tick of the schedule that it has now.
	if run.Always || v.Schedule.Always() && run.Manual == "" {
		plan.Record.Run, plan.Entries = run, []Entry{{Run: run}}
		restart(*v.Policy, &plan.Record, false)
		return plan
	}
	if v.rerun(run) {
		plan.Record.Run, plan.Entries = run, []Entry{{Run: run}}
		// What became of the run is recorded now if the next one may have to wait: for places, too,
		// which this run holds until then, perhaps the last ones.
		if v.held(run) || v.Full || len(v.Policy.Limits) > 0 {
			plan.Record.NextAttempt, plan.Record.NextAttemptAt = history.NextRerun, run.Ended
		} else {
			v.open(&plan, retryOf(run))
		}
		return plan
	}
	run.State = history.StateLost
	plan.Record.Run, plan.Entries = run, []Entry{{Run: run}}
	plan.Request = v.pendingRequest(run)
	return plan
}

// rerun reports whether the tick of an interrupted run is run again.
func (v View) rerun(run zkrec.Run) bool {
	next := retryOf(run)
	next.Started = v.Now.UnixMilli()
	asks, _, _ := next.Asks(*v.Policy)
	return reruns(*v.Policy, run) && (asks || !v.tooOld(run)) && v.pendingRequest(run) == run.Manual
}

// reruns reports whether a policy, with its defaults, wants the tick of an interrupted run to be
// run again. No policy gives up a run that was not begun: there is nothing that must not happen
// twice. One that asks wants an attempt that does so after the last that may call the handler.
func reruns(policy Policy, run zkrec.Run) bool {
	attempts := policy.MaxAttempts
	if policy.Interrupted.Asks() {
		attempts++
	}
	return run.NotBegun || policy.Interrupted != job.InterruptedSkip && run.Attempt-run.Failures < attempts
}

func (v View) tooOld(run zkrec.Run) bool {
	grace, due := v.Policy.MisfireGrace, time.UnixMilli(run.Tick)
	if run.Manual == "" {
		due = v.Due(due)
	}
	return grace > 0 && run.Past() == "" && v.Now.Sub(due) > grace
}

// retryOf returns the next attempt at the tick of a run that has ended.
func retryOf(run zkrec.Run) zkrec.Run {
	next := zkrec.Run{
		Tick: run.Tick, Manual: run.Manual, Attempt: run.Attempt + 1, Failures: run.Failures, Passed: run.Passed,
	}
	next.AskedFor(run.Asked.Value()) // and not for its end
	switch {
	case run.NotBegun:
		next.Attempt = run.Attempt
	case run.State != history.StateInterrupted:
		next.Failures++
	}
	return next
}

// nextAttempt decides on a tick that is to be run again. It leaves the decision
// to the caller if the schedule has moved on or the attempt is not due yet.
func (v View) nextAttempt() (plan Plan, decided bool) {
	again := v.Record.Again()
	at := time.UnixMilli(again.NextAttemptAt)
	switch again.NextAttempt {
	case history.NextRerun:
		if !v.rerun(again.Run) {
			// The policy has changed, or the tick is too old by now.
			return v.noAttempt(), true
		}
	case history.NextRetry:
		if !v.first().IsZero() || v.formerMissed().Change {
			return Plan{}, false // the next tick replaces the retry
		}
	}
	// A clock that was set back must not prolong the wait.
	if wait := at.Sub(v.Now); wait > 0 && !v.Now.Before(time.UnixMilli(again.Ended)) {
		return Plan{Wake: at}, false
	}
	v.open(&plan, retryOf(again.Run))
	return plan, true
}

// noAttempt decides that there is no further attempt: the state in the history is final.
func (v View) noAttempt() Plan {
	r := v.Record
	if r.NextAttempt == "" {
		r.Held = zkrec.Held{}
		return Plan{Change: true, Record: r}
	}
	r.NextAttempt, r.NextAttemptAt = "", 0
	return Plan{Change: true, Record: r, Request: v.pendingRequest(r.Run)}
}

// Outcome is how a run ended.
type Outcome struct {
	State history.State // OK, Failed, TimedOut, Interrupted or Refused
	Error string
	Ended time.Time
	Final bool // never run again, regardless of policy
	// Stop is the request by which an operator has ended the run; zero if none has.
	Stop Request
	// NotBegun says that the handler was certainly not called: an interrupted run that is run again,
	// as the same attempt, regardless of policy.
	NotBegun bool
	Moved    bool // of a job that always runs: it was ended because the job moves to another instance
	// Effects of an attempt before, if they were found: the run is OK, and its handler was not
	// called.
	Effects history.Effects
}

// End returns the change that records the outcome of the run that r has open.
func End(of Job, r Record, o Outcome) Plan {
	policy := of.Policy.WithDefaults()
	of = of.By(r)
	r.State, r.Error, r.Ended = o.State, zkrec.CutError(o.Error), o.Ended.UnixMilli()
	r.NotBegun, r.RestartAt = o.NotBegun, 0
	if o.Effects != (history.Effects{}) {
		r.Effects = zkrec.EffectsOf(o.Effects, o.Ended)
	}
	r.Stopped(o.Stop.Request)
	switch {
	case r.Always:
		restart(policy, &r, o.Moved)
	case o.Final:
	case r.State == history.StateInterrupted:
		if reruns(policy, r.Run) {
			r.NextAttempt, r.NextAttemptAt = history.NextRerun, r.Ended
		}
	case r.State == history.StateFailed || r.State == history.StateTimedOut:
		at := o.Ended.Add(backoff(policy, r.Failures))
		next := of.Due(of.nextTick(time.UnixMilli(r.Tick)))
		if r.Manual == "" && r.Failures < policy.Retries && (next.IsZero() || at.Before(next)) {
			r.NextAttempt, r.NextAttemptAt = history.NextRetry, at.UnixMilli()
		}
	}
	of.countFailed(&r)
	plan := Plan{Change: true, Record: r, Entries: []Entry{{Run: r.Run}}}
	if r.NextAttempt == "" {
		plan.Request = r.Manual
	}
	return plan
}

// maxBackoff bounds the doubling of a policy's Backoff.
const maxBackoff = 24 * time.Hour

func backoff(p Policy, failures int) time.Duration {
	d := max(p.Backoff, 0)        // job.NoBackoff is negative
	for range min(failures, 64) { // the record may contain any number
		if d < maxBackoff {
			d = min(2*d, maxBackoff)
		}
	}
	return d
}

// Overdue returns the first tick that should be accounted for and is not, or the
// zero time, and when to check again (zero: never). No tick is overdue while a run
// is in progress or if the job has no alarm. Resharding is no excuse, however long
// it takes. While the record is Foreign, the owner's next tick may be any: the first
// one counts when the one after it would, too.
func Overdue(job Job, r Record, running bool, now time.Time) (tick, lookAgain time.Time) {
	job = job.By(r)
	v := View{Job: job, Record: r, Now: now}
	alarmAfter := job.Policy.WithDefaults().AlarmAfter
	first := job.Schedule.Next(v.base())
	if !job.isChild() && !Waiting(job, r, first).IsZero() {
		return time.Time{}, now.Add(max(alarmAfter, time.Second)) // the first shard's ticks are looked at as well
	}
	if job.Schedule.Always() {
		if r.Open() {
			return time.Time{}, now.Add(max(alarmAfter, time.Second)) // when its run ends is not known
		}
		first = job.restartAt(r)
	}
	if first.IsZero() || alarmAfter < 0 { // job.NoAlarm
		return time.Time{}, time.Time{}
	}
	from := v.came(first)
	if next := job.Schedule.Next(first); Foreign(job, r) && !next.IsZero() {
		from = v.came(next)
	}
	if job.isChild() {
		if from = job.deadline(first); from.IsZero() { // its last tick, which waits for as long as it takes
			return time.Time{}, time.Time{}
		}
	}
	from, ends := job.alarmFrom(from, job.Due(first), alarmAfter)
	if !ends {
		return time.Time{}, now.Add(alarmAfter)
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

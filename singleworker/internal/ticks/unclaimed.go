package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// maxRecords is how many records an owner writes at most before it claims a run that is due: a
// safeguard, two are usual.
const maxRecords = 8

// Unclaimed returns since when a run of an idle slot has been due at t that its owner has not
// claimed: of a tick, another attempt at one, or a manual run that is requested. It returns the
// zero time if none is, or if a run is open. A tick that an owner would not run but record, such as
// one in a pause, is not urgent and does not count. Nor does anything while the record is Foreign:
// two instances would take the slot from each other at each tick. Nor does a run that needs places
// of limits: another owner would wait for them, too.
func Unclaimed(job Job, r Record, requests []Request, t time.Time) time.Time {
	if r.Open() || len(job.Policy.Limits) > 0 {
		return time.Time{}
	}
	v := View{Job: job, Record: r, Now: t, SID: r.SID, Token: r.Token, Requests: requests}
	plan := Next(v)
	for range maxRecords { // the owner records something first: ticks that a former schedule missed, say
		if !plan.Change || plan.Opens {
			break
		}
		v.Record = plan.Record
		v.Requests = slices.DeleteFunc(slices.Clone(v.Requests), func(r Request) bool { return r.ID == plan.Request })
		plan = Next(v)
	}
	since := v.came(time.UnixMilli(plan.Record.Tick))
	switch again := v.Record.Again(); {
	case plan.Record.Manual != "" && plan.Record.Manual != again.Manual:
		next, _ := v.request()
		since = time.UnixMilli(next.At.UnixMilli()) // nobody waits longer for it
	case plan.Record.Attempt > 1 || plan.Record.Past() != "":
		since = time.UnixMilli(again.NextAttemptAt)
	case plan.Record.Manual != "":
		since = time.UnixMilli(plan.Record.Tick)
	}
	if job.Schedule.Always() {
		since = job.restartAt(v.Record)
	}
	if !plan.Opens || since.After(t) { // the owner's clock is ahead; Next would not have an attempt, or a restart, wait for that
		return time.Time{}
	}
	if Foreign(job, r) {
		return time.Time{}
	}
	return since
}

// Foreign reports whether the last run of a slot is of a tick that the schedule does not have here,
// although it was in force. Who claimed it has another version of the time zone database, or of the
// rules for schedules. A job that runs after others has no such ticks: a parent of then may be
// gone.
func Foreign(job Job, r Record) bool {
	tick := time.UnixMilli(r.Tick)
	if r.Tick == 0 || r.Manual != "" || job.Schedule.Always() || job.isChild() || !tick.After(job.begins()) {
		return false
	}
	has := func(s *cronexpr.Schedule) bool { return s == nil || s.Next(tick.Add(-time.Millisecond)).Equal(tick) }
	return !has(job.Schedule) && !slices.ContainsFunc(job.Former, func(f Former) bool { return has(f.Schedule) })
}

// NextDue returns when, after t, a run of the slot may become due if r stays as it is: its next
// tick, or the next attempt at the last one. It returns the zero time if that takes a change of the
// job.
func NextDue(job Job, r Record, t time.Time) time.Time {
	if job.Schedule.Always() {
		return job.nextRestart(r, t)
	}
	job = job.By(r)
	next := job.putOff(job.Due(job.nextTick(Later(job.through(t), time.UnixMilli(r.Watermark)))), t)
	again := r.Again()
	if again.NextAttempt == "" {
		return next
	}
	if at := time.UnixMilli(again.NextAttemptAt); at.After(t) && (next.IsZero() || at.Before(next)) {
		return at
	}
	return next
}

package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A job that always runs has no ticks in its schedule. Each of its runs is a tick: the time at
// which it was due, by the record alone, so that any owner continues a pause. Between two runs it
// pauses for the job's Backoff, which doubles after each run that did not last, up to maxRestart. A
// run that lasts steadyRun ends the series. One that is moved to another instance is not paused at
// all, and does not count.
const (
	maxRestart = 5 * time.Minute
	steadyRun  = 10 * time.Minute
)

// always decides for a job that always runs, of which no run is open.
func (v View) always() (plan Plan) {
	paused, waits := v.pausedNow() != nil, v.withdrawn()
	switch {
	case !paused && v.Record.Again().NextAttempt != "": // of a former schedule: the next run begins anyway, and resharding waits for what is to be repeated
		return v.noAttempt()
	case waits != "": // no run of a job that always runs can be asked for, in a pause or not
		return Plan{Change: true, Record: v.Record, Request: waits}
	case paused:
		plan = v.formerMissed()
		plan.Wake = v.pauseEnds()
		return plan
	case v.ends(): // the job is being resharded: its next run is that of another layout
		return v.formerMissed()
	}
	if plan = v.formerMissed(); plan.Change {
		return plan
	}
	due := v.restartAt(v.Record)
	// A clock that was set back must not prolong the wait, unless ticks of a former schedule are still
	// to be recorded, for which its time has not come.
	if owes := v.Record.Watermark < v.Since.UnixMilli(); due.After(v.Now) && (owes || !v.Now.Before(time.UnixMilli(v.Record.Ended))) {
		return Plan{Wake: due}
	}
	tick := due
	if v.Now.Before(due) {
		tick = v.restartAt(Record{Watermark: v.Record.Watermark})
	}
	plan.Record.Watermark, plan.Change = tick.UnixMilli(), true
	v.open(&plan, zkrec.Run{Tick: tick.UnixMilli(), Attempt: 1, Always: true, Restarts: restarts(v.Record)})
	return plan
}

// withdrawn is the first request that was made while the job had another schedule, and of which no
// run has begun, or "".
func (v View) withdrawn() string {
	i := slices.IndexFunc(v.Requests, func(r Request) bool { return r.ID != v.Record.Again().Manual })
	if i < 0 {
		return ""
	}
	return v.Requests[i].ID
}

// restartAt is when the next run of a job that always runs is due, if none is open: after every
// tick that is accounted for.
func (j Job) restartAt(r Record) time.Time {
	first := Later(j.begins(), time.UnixMilli(r.Watermark)).Truncate(time.Millisecond).Add(time.Millisecond)
	return Later(first, time.UnixMilli(r.RestartAt))
}

// restarts counts the runs before the next one that did not last.
func restarts(r Record) int {
	switch {
	case r.RestartAt == 0 || lasted(r.Run): // the first run, or after one that lasted
		return 0
	case r.RestartAt == r.Ended: // it was moved
		return r.Restarts
	}
	return r.Restarts + 1
}

func lasted(r zkrec.Run) bool { return r.Ended-r.Started >= steadyRun.Milliseconds() }

// restart says in the record of a run that has ended when the next one begins. moved is one that
// was ended because the job moves to another instance.
func restart(p Policy, r *Record, moved bool) {
	r.RestartAt = r.Ended
	if moved {
		return
	}
	d := max(p.Backoff, time.Millisecond)
	if !lasted(r.Run) {
		for range min(r.Restarts, 64) { // the record may contain any number
			if d < maxRestart {
				d = min(2*d, maxRestart)
			}
		}
	}
	r.RestartAt += d.Milliseconds()
}

// alwaysLook is how often the record of a job that always runs is looked at for a run that was not
// claimed.
const alwaysLook = 15 * time.Second

// nextRestart is NextDue of a job that always runs. Nobody tells when its run ends.
func (j Job) nextRestart(r Record, t time.Time) time.Time {
	due := j.putOff(j.restartAt(r), t)
	if !r.Open() && due.After(t) {
		return due
	}
	return t.Add(alwaysLook)
}

package ticks

import (
	"iter"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A pause of a job and the spans in which its group was frozen count alike: by the rules here, a
// tick is in a pause if it is in one of them.

// pauses are the last pause of the job, and the last freezes of its group.
func (j Job) pauses() iter.Seq[*zkrec.Pause] {
	return func(yield func(*zkrec.Pause) bool) {
		if j.Paused != nil && !yield(j.Paused) {
			return
		}
		for i := range j.Frozen {
			if !yield(&j.Frozen[i]) {
				return
			}
		}
	}
}

// PausedAt is the pause that covers t, the job's own before a freeze of the group, or nil.
func (j Job) PausedAt(t time.Time) *zkrec.Pause {
	for p := range j.pauses() {
		if p.Covers(t) {
			return p
		}
	}
	return nil
}

// pausedNow is the pause because of which nothing of the schedule may begin now, or nil. A pause
// counts from when it is known: its beginning is by ZooKeeper's clock, which may be ahead of the
// owner's, and no run may begin once it is written.
func (v View) pausedNow() *zkrec.Pause {
	if v.Paused.Lasts(v.Now) {
		return v.Paused
	}
	if n := len(v.Frozen); n > 0 && v.Frozen[n-1].Lasts(v.Now) {
		return &v.Frozen[n-1]
	}
	if v.Failing(v.Record) {
		return &zkrec.Pause{} // which is still to be written
	}
	return v.PausedAt(v.Now)
}

// pauseEnds is when the pauses from now on end by themselves, or zero if they do not.
func (v View) pauseEnds() time.Time {
	for p := v.pausedNow(); p != nil; p = v.PausedAt(v.Now) {
		if p.Until == 0 {
			return time.Time{}
		}
		v.Now = time.UnixMilli(p.Until)
	}
	return v.Now
}

// putOff is when a run that is due at that time, or before, can begin, if t is now: a pause of now
// puts it off to its end. It is zero if that does not end by itself.
func (j Job) putOff(due, t time.Time) time.Time {
	if v := (View{Job: j, Now: t}); v.pausedNow() != nil {
		return v.pauseEnds()
	}
	return due
}

// NextRun is when the first tick after the given one is due that is due after now, and after the
// pauses of now. It is zero if those do not end by themselves.
func (j Job) NextRun(tick, now time.Time) time.Time {
	if v := (View{Job: j, Now: now}); v.pausedNow() != nil {
		if now = v.pauseEnds(); now.IsZero() {
			return now
		}
		now = now.Add(-time.Millisecond)
	}
	return j.NextDue(now, tick)
}

// missed is the policy for a tick that is due at t, in a pause: of several pauses the strictest. ok
// is false if it is in none.
func (j Job) missed(t time.Time) (policy job.MisfirePolicy, ok bool) {
	order := []job.MisfirePolicy{"", job.MisfireSkip, job.MisfireOnce, job.MisfireAll}
	for p := range j.pauses() {
		if p.Covers(t) && (!ok || slices.Index(order, p.Missed) < slices.Index(order, policy)) {
			policy, ok = p.Missed, true
		}
	}
	return policy, ok
}

// alarmFrom is from when on AlarmAfter counts for a tick that is due at a time: for one that was
// not overdue when a pause began, from the end of that pause. ends is false if the pause does not
// end by itself.
func (j Job) alarmFrom(from, due time.Time, alarmAfter time.Duration) (_ time.Time, ends bool) {
	for range 1 + len(j.Frozen) { // each may begin before another one ends
		for p := range j.pauses() {
			if p.Since == 0 || !due.Add(alarmAfter).After(time.UnixMilli(p.Since)) {
				continue
			}
			if p.Until == 0 {
				return from, false
			}
			if until := time.UnixMilli(p.Until); due.Before(until) {
				from, due = until, until
			}
		}
	}
	return from, true
}

package ticks

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Due is when a tick is due: it is delayed by the job's Jitter, but not up to the next tick. So
// ticks are due in their order.
func (j Job) Due(tick time.Time) time.Time {
	if j.Policy.Jitter == 0 || tick.IsZero() {
		return tick
	}
	limit := j.Policy.Jitter
	if next := j.Schedule.Next(tick); !next.IsZero() {
		limit = min(limit, next.Sub(tick))
	}
	return tick.Add(zkrec.Jitter(j.Group, j.Slot, tick, limit))
}

// NextDue is when the first tick after the given one is due that is due after t.
func (j Job) NextDue(t, tick time.Time) time.Time {
	return j.Due(j.Schedule.Next(Later(j.through(t), tick)))
}

// through is the time up to which all ticks are due at t.
func (j Job) through(t time.Time) time.Time {
	if j.Policy.Jitter == 0 {
		return t
	}
	if last := j.Schedule.Prev(after(t)); j.Due(last).After(t) {
		return before(last)
	}
	return t
}

// delayed is when the tick is due that has come last, if it is not yet, or else zero.
func (v View) delayed() time.Time {
	if v.Policy.Jitter == 0 {
		return time.Time{}
	}
	tick := v.nextTick(Later(v.base(), v.through(v.Now)))
	if tick.IsZero() || tick.After(v.Now) {
		return time.Time{} // the schedule tells
	}
	return v.Due(tick)
}

package ticks

import "time"

// A job does not move to another owner within settleFor before its next tick (but at
// most a quarter of the time between two ticks), nor within settleAfter after a
// tick, which may not have been claimed yet.
const (
	settleFor   = 2 * time.Second
	settleAfter = 100 * time.Millisecond
)

// Soon reports whether a tick of the job is so close that a new owner might be late
// for it. A pause makes no difference; ignoring it delays a move only briefly.
func Soon(job Job, now time.Time) bool {
	tick := job.nextTick(job.through(now.Add(-settleAfter)))
	next := job.Due(tick)
	if next.IsZero() {
		return false
	}
	before := settleFor
	if then := job.Due(job.nextTick(tick)); !then.IsZero() {
		before = min(before, then.Sub(next)/4)
	}
	return next.Sub(now) < before
}

package ticks

import "time"

// settleFor is how long before its next tick a job stays where it is, if that is no
// more than a quarter of the time between two ticks; and settleAfter, how long
// after a tick that may not have been claimed yet.
const (
	settleFor   = 2 * time.Second
	settleAfter = 100 * time.Millisecond
)

// Soon reports that a tick of the job is so near that a new owner might be late
// for it. A pause makes no difference: it costs a move at most a moment.
func Soon(job Job, now time.Time) bool {
	next := job.nextTick(now.Add(-settleAfter))
	if next.IsZero() {
		return false
	}
	before := settleFor
	if then := job.nextTick(next); !then.IsZero() {
		before = min(before, then.Sub(next)/4)
	}
	return next.Sub(now) < before
}

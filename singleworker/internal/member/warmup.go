package member

import "time"

// Warmup is the delay of this instance's start, in which it is closed.
type Warmup struct {
	member *Member
	until  time.Duration // by the loop's clock
}

// Next is when the delay ends, if that is before then.
func (w *Warmup) Next(then time.Duration) time.Duration {
	if w.member.closing.cold {
		return min(w.until, then)
	}
	return then
}

// Check ends the delay when it is over.
func (w *Warmup) Check() {
	if w.member.loop.Now() >= w.until {
		w.End()
	}
}

// End ends the delay. Idempotent.
func (w *Warmup) End() {
	if w.member.closing.cold {
		w.member.closing.cold = false
		w.member.loop.Log.Info("warm: taking jobs")
		w.member.announce()
	}
}

package deputy

import (
	"math"
	"time"
)

// patience is how many times the lateness that the group shows a deputy waits, and maxGrace how
// long at most.
const (
	patience = 3
	maxGrace = 10 * time.Second
	halfLife = 2 * time.Second // of a lateness that was seen
)

// pace is how late things are at present.
type pace struct {
	least time.Duration // what grace is at least
	late  time.Duration
	at    time.Duration // Mono: when that was
}

// saw notes that something was late.
func (p *pace) saw(now, late time.Duration) {
	if late > p.lately(now) {
		p.late, p.at = late, now
	}
}

// lately is the largest lateness that was seen; it fades with time.
func (p *pace) lately(now time.Duration) time.Duration {
	return time.Duration(float64(p.late) * math.Exp2(-float64(now-p.at)/float64(halfLife)))
}

// grace is how long an owner has at present to claim a run.
func (p *pace) grace(now time.Duration) time.Duration {
	return min(max(p.least, patience*p.lately(now)), maxGrace)
}

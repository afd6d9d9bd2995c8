package leases

import (
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// Clock combines this instance's clocks into the instants by which leases are
// measured. Safe for concurrent use.
type Clock struct {
	start time.Time

	mu      sync.Mutex
	last    time.Time
	elapsed time.Duration
}

// NewClock starts a clock at zero.
func NewClock() *Clock {
	now := time.Now()
	return &Clock{start: now, last: now}
}

// Now returns the current instant. Elapsed grows by the larger of the monotonic and
// the wall clock's progress since the last reading: the monotonic clock stops
// while the machine is suspended, and the wall clock may be set back.
func (c *Clock) Now() lease.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	mono := now.Sub(c.last)
	wall := now.Round(0).Sub(c.last.Round(0)) // Round(0) strips the monotonic reading
	c.last = now
	c.elapsed += progress(mono, wall)
	return lease.Instant{Mono: now.Sub(c.start), Elapsed: c.elapsed}
}

func progress(mono, wall time.Duration) time.Duration { return max(mono, wall, 0) }

// ahead is how much further the wall clock has advanced than the monotonic one.
func (c *Clock) ahead() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(c.start.Round(0)) - now.Sub(c.start)
}

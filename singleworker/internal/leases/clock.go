package leases

import (
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// Clock combines this instance's clocks into the instants by which leases are
// measured. Safe for concurrent use.
type Clock struct {
	read  func() reading
	wall  wall.Clock
	begun time.Time // by the wall clock

	mu      sync.Mutex
	leapt   chan struct{} // closed and replaced when the wall clock leaps
	last    reading
	elapsed time.Duration
	leap    leap // the latest one
}

// leap is one of the wall clock, ahead by more than maxDrift between two readings: it was set, or
// the machine was suspended. Which of the two it was, no clock tells.
type leap struct{ from, to time.Duration } // Elapsed without it, and with it

// reading is the time since the start by both clocks.
type reading struct{ mono, wall time.Duration }

// NewClock starts a clock at zero.
func NewClock() *Clock { return NewClockOf(nil) }

// NewClockOf is NewClock for an instance whose wall clock may be off.
func NewClockOf(w wall.Clock) *Clock {
	start, off := time.Now(), w.Off()
	return &Clock{wall: w, begun: start.Round(0).Add(off), leapt: make(chan struct{}), read: func() reading {
		now := time.Now()
		passed := now.Round(0).Sub(start.Round(0)) // Round(0) strips the monotonic reading
		return reading{mono: now.Sub(start), wall: passed + w.Off() - off}
	}}
}

// Wall returns the time by the wall clock.
func (c *Clock) Wall() time.Time { return c.wall.Now() }

// Reading reads both clocks.
func (c *Clock) Reading() offset.Reading {
	now := c.read()
	return offset.Reading{Mono: now.mono, Wall: c.begun.Add(now.wall)}
}

// Now returns the current instant. Elapsed grows by the larger of the monotonic and
// the wall clock's progress since the last reading: the monotonic clock stops
// while the machine is suspended, and the wall clock may be set back.
func (c *Clock) Now() lease.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.read()
	mono := now.mono - c.last.mono
	step := progress(mono, now.wall-c.last.wall)
	if step-mono > maxDrift {
		c.leap = leap{from: c.elapsed + mono, to: c.elapsed + step}
		close(c.leapt)
		c.leapt = make(chan struct{})
	}
	c.elapsed += step
	c.last = now
	return lease.Instant{Mono: now.mono, Elapsed: c.elapsed}
}

// Leapt returns a channel that is closed when the wall clock leaps the next time: the holder of a
// lease then asks ZooKeeper whether it still holds.
func (c *Clock) Leapt() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leapt
}

// Ends is when the work under a lease ends, on Elapsed, if the lease is not renewed: at the end of
// the lease or, if that comes sooner because of the latest leap alone, which may have been a step
// of the clock, when ZooKeeper has been asked. Nothing begins after the end of the lease.
func (c *Clock) Ends(until time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(until, c.leap.to+min(until-c.leap.from, askFor))
}

func progress(mono, wall time.Duration) time.Duration { return max(mono, wall, 0) }

// ahead is how much further the wall clock has advanced than the monotonic one.
func (c *Clock) ahead() time.Duration {
	now := c.read()
	return now.wall - now.mono
}

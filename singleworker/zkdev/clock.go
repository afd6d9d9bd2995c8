package zkdev

import (
	"log/slog"
	"time"
)

const (
	// maxStep is how far the clock of the machine may be from the time that has passed since it was
	// read before. Instances of a group tolerate as much between two machines.
	maxStep = 30 * time.Second

	// stepHolds is how long a larger step must last until it is believed.
	stepHolds = 10 * time.Minute
)

// A steadyClock is the clock of a server whose clients have the same one: if that leaps, nothing
// else shows it. The server goes on by the time that has passed, and the clients see that theirs
// differs. It never goes back, not even across a restart. A nil clock is the machine's.
type steadyClock struct {
	logger  *slog.Logger
	read    time.Time // by the machine, with its monotonic clock
	shown   time.Time // at that moment
	stepped time.Time // when a step was seen; zero for none
	last    time.Time // the latest time that was shown
}

// notBefore has the clock never show an earlier time.
func (c *steadyClock) notBefore(t time.Time) {
	if t.After(c.last) {
		c.last = t
	}
}

// at returns the time at a reading of the machine's clock.
func (c *steadyClock) at(now time.Time) time.Time {
	wall := now.Round(0)
	shown := wall
	if !c.read.IsZero() {
		shown = c.shown.Add(now.Sub(c.read))
	}
	switch step := wall.Sub(shown); {
	case step.Abs() <= maxStep:
		c.stepped = time.Time{}
		c.read, c.shown = now, wall
	case c.stepped.IsZero():
		c.stepped = now
		c.logger.Warn("the clock of the machine was set: the server follows when it has held", "step", step, "after", stepHolds)
	case now.Sub(c.stepped) >= stepHolds:
		c.logger.Warn("the server follows the clock of the machine", "step", step)
		c.stepped = time.Time{}
		c.read, c.shown = now, wall
	}
	c.notBefore(c.shown.Add(now.Sub(c.read)))
	return c.last
}

package election

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

// tenure is one term, from its start until Serve has returned.
type tenure struct {
	term   Term
	cancel context.CancelCauseFunc
	served chan struct{} // closed when Serve has returned

	// guarded by the contender's mu
	until time.Duration // end of the lease, on the clock's Elapsed
	cause error         // why the term ended; nil while it is open
}

// open reports whether there is a term that has not ended. The caller holds mu.
func (c *Contender) open() bool { return c.tenure != nil && c.tenure.cause == nil }

// end ends the open term, if any. The caller holds mu.
func (c *Contender) end(cause error) {
	if !c.open() {
		return
	}
	c.tenure.cause = cause
	c.tenure.cancel(cause)
	c.turn()
}

// depose ends the open term, if any.
func (c *Contender) depose(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(cause)
}

// stop ends the open term and prevents further ones.
func (c *Contender) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(ErrStopped)
	if !c.stopped {
		c.stopped = true
		c.turn()
	}
}

// hold records a proof of life, which is valid until the given time unless the session has ended
// since. It starts a term or extends the current one, also one whose lease a leap of the clock has
// ended while ZooKeeper is asked: the contender was the leader all the time. The returned channel
// is closed when Serve returns from that term, or from an earlier one that is still being served;
// nil if there is no such term.
func (c *Contender) hold(s *session, term Term, until time.Duration) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now().Elapsed
	if c.open() && now >= c.cfg.Clock.Ends(c.tenure.until) {
		c.end(ErrLapsed)
	}
	switch {
	case c.open():
		if s.ctx.Err() == nil {
			c.tenure.until = max(c.tenure.until, until)
			signal(c.renewed)
			c.turn() // for those to whom Held was false
		}
	case c.serving() != nil: // the previous term's work has not ended yet
	case s.ctx.Err() == nil && now < until && !c.stopped:
		c.begin(term, until)
	default:
		return nil
	}
	return c.serving()
}

// begin starts a term. The caller holds mu.
func (c *Contender) begin(term Term, until time.Duration) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.calls))
	t := &tenure{term: term, cancel: cancel, served: make(chan struct{}), until: until}
	c.tenure = t
	c.turn()
	signal(c.renewed)
	c.tasks.Go("leader", func(context.Context) error {
		log := c.cfg.Logger.With("path", c.cfg.Path, "token", term.Token)
		defer func() { // runs after a panic, too
			c.depose(ErrResigned)
			log.Info("leadership lost", "cause", context.Cause(ctx))
			close(t.served)
		}()
		log.Info("leadership acquired")
		c.cfg.Serve(ctx, term)
		return nil
	})
}

// serving returns a channel that is closed when Serve returns, or nil if Serve is not running. The
// caller holds mu.
func (c *Contender) serving() <-chan struct{} {
	if c.tenure == nil {
		return nil
	}
	select {
	case <-c.tenure.served:
		return nil
	default:
		return c.tenure.served
	}
}

// Resign ends the open term, if any. Serve calls it if it has cleanup to do after the term but
// before the contender leaves its place.
func (c *Contender) Resign() { c.depose(ErrResigned) }

// resigned reports whether a term ended with ErrResigned and Serve has returned.
func (c *Contender) resigned(from Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenure != nil && c.tenure.term == from && errors.Is(c.tenure.cause, ErrResigned) && c.serving() == nil
}

// awaitServed waits until Serve is not running or ctx ends.
func (c *Contender) awaitServed(ctx context.Context) {
	c.mu.Lock()
	served := c.serving()
	c.mu.Unlock()
	if served != nil {
		select {
		case <-served:
		case <-ctx.Done():
		}
	}
}

// watch ends terms whose lease lapses, and has ZooKeeper asked at once whether the contender leads
// when the clock leaps: see leases.Clock. When ctx ends, it stops the contender.
func (c *Contender) watch(ctx context.Context) error {
	timer := time.NewTimer(leases.WatchEvery)
	defer timer.Stop()
	leapt := c.cfg.Clock.Leapt()
	for {
		select {
		case <-ctx.Done():
			c.stop()
			return nil
		case <-timer.C:
		case <-c.renewed:
		case <-leapt:
			leapt = c.cfg.Clock.Leapt()
			signal(c.changed)
		}
		timer.Reset(c.sweep())
	}
}

// sweep ends the open term if its lease has lapsed, and returns how long to wait until the next
// call.
func (c *Contender) sweep() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open() {
		return leases.WatchEvery
	}
	now := c.cfg.Clock.Now().Elapsed
	left := c.cfg.Clock.Ends(c.tenure.until) - now
	if left <= 0 {
		c.end(ErrLapsed)
		return leases.WatchEvery
	}
	return min(left, leases.WatchEvery)
}

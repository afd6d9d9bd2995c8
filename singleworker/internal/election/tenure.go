package election

import (
	"context"
	"errors"
	"time"
)

// tenure is one term, from the moment that it begins until Serve has returned.
type tenure struct {
	term   Term
	cancel context.CancelCauseFunc
	served chan struct{} // closed when Serve has returned

	// guarded by the contender's mu
	until time.Duration // on the clock's Elapsed
	cause error         // why it is over; nil while it is open
}

// open is called with mu held. It reports whether there is a term that has not ended.
func (c *Contender) open() bool { return c.tenure != nil && c.tenure.cause == nil }

// end is called with mu held. It ends the term, if there is one, for good.
func (c *Contender) end(cause error) {
	if !c.open() {
		return
	}
	c.tenure.cause = cause
	c.tenure.cancel(cause)
	c.turn()
}

// depose ends the term because of what the loop has seen.
func (c *Contender) depose(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(cause)
}

// stop ends the term, and lets no other begin.
func (c *Contender) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(ErrStopped)
	if !c.stopped {
		c.stopped = true
		c.turn()
	}
}

// hold takes a proof of life into account, which is good until then if the session has not
// ended meanwhile. It begins a term or prolongs the present one, and returns a
// channel that is closed when Serve has returned from that, or from a former one that has
// to be waited for, or nil.
func (c *Contender) hold(s *session, term Term, until time.Duration) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now().Elapsed
	if c.open() && now >= c.tenure.until {
		c.end(ErrLapsed) // for Held may have been asked meanwhile, and said so
	}
	switch {
	case c.open():
		if s.ctx.Err() == nil {
			c.tenure.until = max(c.tenure.until, until)
			signal(c.renewed)
		}
	case c.serving() != nil: // it may still do what only a leader may
	case s.ctx.Err() == nil && now < until && !c.stopped:
		c.begin(term, until)
	default:
		return nil
	}
	return c.serving()
}

// begin is called with mu held.
func (c *Contender) begin(term Term, until time.Duration) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.calls))
	t := &tenure{term: term, cancel: cancel, served: make(chan struct{}), until: until}
	c.tenure = t
	c.turn()
	signal(c.renewed)
	c.tasks.Go("leader", func(context.Context) error {
		log := c.cfg.Logger.With("path", c.cfg.Path, "token", term.Token)
		defer func() { // also after a panic
			c.depose(ErrResigned)
			log.Info("leads no more", "cause", context.Cause(ctx))
			close(t.served)
		}()
		log.Info("leads")
		c.cfg.Serve(ctx, term)
		return nil
	})
}

// serving is called with mu held. It returns a channel that is closed when Serve has
// returned, or nil when it has.
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

// Resign ends the term, if there is one. To be called by Serve, which has yet to do what
// must be done before the place is given up.
func (c *Contender) Resign() { c.depose(ErrResigned) }

// resigned reports whether a term ended by itself, and has been served.
func (c *Contender) resigned(from Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenure != nil && c.tenure.term == from && errors.Is(c.tenure.cause, ErrResigned) && c.serving() == nil
}

// awaitServed returns when Serve does not run, or when ctx ends.
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

// watchEvery is how often the clocks are compared although no lease is due: how late it
// is noticed that the machine was suspended.
const watchEvery = time.Second

// watch ends a term that is not renewed, until ctx is done, and with ctx.
func (c *Contender) watch(ctx context.Context) error {
	timer := time.NewTimer(watchEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			c.stop()
			return nil
		case <-timer.C:
		case <-c.renewed:
		}
		timer.Reset(c.sweep())
	}
}

// sweep ends a term whose lease is over, and returns when to look again.
func (c *Contender) sweep() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open() {
		return watchEvery
	}
	left := c.tenure.until - c.cfg.Clock.Now().Elapsed
	if left <= 0 {
		c.end(ErrLapsed)
		return watchEvery
	}
	return min(left, watchEvery)
}

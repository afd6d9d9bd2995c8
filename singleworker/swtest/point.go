package swtest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// Point marks a place in a handler, or in a fake of an outside system that it calls, where a fault
// hurts: between a charge and its receipt, for example. [Explore] counts how often runs come there,
// and has faults strike exactly there. ctx is the handler's, or derived from it.
//
// In a process that is killed, Point does not return: the goroutine ends, and its deferred calls
// are all that is still done. In one that is stopped it returns when that is over, and it may have
// lost its lease meanwhile. The error is nil, or ErrRefused as long as a fault has outside systems
// refuse: before a call of one that means that nothing was done, and after it that the answer is
// lost. Where it only marks a place, ignore it. Outside of Explore, Point does nothing.
func Point(ctx context.Context, name string) error {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil
	}
	return c.at(name)
}

// ErrRefused is the error of an outside system that refuses, or whose answer is lost.
var ErrRefused = errors.New("swtest: refused")

type callKey struct{}

// call is a run in a process.
type call struct {
	process *process
	run     *singleworker.Run
}

// at is Point.
func (c *call) at(point string) error {
	c.process.goOn()
	w := c.process.world
	at := place{c.run.Slot, point}
	for _, f := range w.reached(at) {
		w.strike(f, c.process)
	}
	c.process.goOn()
	if w.refuses(at) {
		return ErrRefused
	}
	return nil
}

// goOn returns when the process goes on after a stop, and ends the goroutine of one that is dead.
func (p *process) goOn() {
	for {
		p.mu.Lock()
		over, dead := p.over, p.dead
		p.mu.Unlock()
		if dead {
			runtime.Goexit()
		}
		if over == nil {
			return
		}
		<-over
	}
}

// errNoReturn is the result of a handler that panicked, or ended its goroutine.
var errNoReturn = errors.New("swtest: the handler did not return")

// wraps makes a handler one of the process.
func (p *process) wraps(h singleworker.Handler) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		c, err := &call{process: p, run: run}, errNoReturn
		end := p.world.begins(c)
		defer func() { end(err) }()
		inner, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), callKey{}, c))
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { p.hears(ctx, cancel) })()
		_ = c.at("begin")
		result := h(deadlined{inner, ctx}, run)
		_ = c.at("end")
		err = result
		return err
	}
}

// deadlined has the deadline of another context.
type deadlined struct {
	context.Context //nolint:containedctx // it is one
	of              context.Context
}

func (d deadlined) Deadline() (time.Time, bool) { return d.of.Deadline() }

// wakes is how long a process that was stopped works until it hears that it has lost its lease.
const wakes = time.Millisecond

// hears ends a handler's context when the process can know of it: not while it is stopped, and a
// little after, as a real process writes the next row before its timers are served.
func (p *process) hears(ctx context.Context, end context.CancelCauseFunc) {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if over != nil {
		<-over
		<-time.After(wakes)
	}
	end(context.Cause(ctx))
}

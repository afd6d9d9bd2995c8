package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// ErrRefused is returned by BeforeTick to refuse a tick.
var ErrRefused = errors.New("singleworker: tick refused")

// errNotPassed means that BeforeTick has returned nil, and that this could not be recorded: no
// shard begins, and the run is repeated as if it was interrupted.
var errNotPassed = errors.New("the end of BeforeTick was not recorded")

// prepare calls BeforeTick if that is up to this run, and records that it has returned nil, in
// claimed as well: the other shards begin then. An attempt after that does not call it again.
func (e *execution) prepare() error {
	if !e.beforePending() {
		return nil
	}
	if err := e.job.Before(e.ctx, e.act.run); err != nil {
		return fmt.Errorf("before the tick: %w", err)
	}
	type answer struct {
		current *ticks.Record
		err     error
	}
	answers := make(chan answer, 1)
	e.pass(e.claimed, func(current *ticks.Record, err error) { answers <- answer{current, err} })
	select {
	case a := <-answers:
		if a.err != nil {
			return fmt.Errorf("%w: %w", errNotPassed, a.err)
		}
		e.claimed = *a.current
		return nil
	case <-e.ctx.Done(): // it may still be written
		return context.Cause(e.ctx)
	}
}

// beforePending reports whether BeforeTick is to be called, before any handler of the tick.
func (e *execution) beforePending() bool {
	return e.job.Before != nil && e.act.run.Request == nil && e.claimed.Passed == 0
}

// pass records that BeforeTick has returned nil for the tick of the run that from has open.
func (e *execution) pass(from ticks.Record, done func(current *ticks.Record, err error)) {
	r, name := e.runs, e.job.Name
	plan := ticks.Pass(from, r.cfg.Wall.Now())
	r.out.commitAlone(&ticks.Commit{Slot: name, From: from, Plan: plan}, func(current *ticks.Record, err error) {
		open := errors.Is(err, ticks.ErrConflict) && current.RunID == from.RunID && current.Open()
		switch {
		case open && current.Passed == 0:
			e.pass(*current, done) // other ticks were recorded meanwhile
			return
		case open:
			err = nil // by an earlier try
		}
		if err == nil {
			r.box.Post(func() { r.jobs.remember(name, current) })
		}
		done(current, err)
	})
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// Run is one execution of a handler for a claimed tick, as it was claimed. Its Tick is in the zone
// of the job's schedule.
type Run struct {
	Job string
	history.Run

	Request *ticks.Request // nil for a scheduled run
}

// Result is how a run ended.
type Result struct {
	Run
	Err error // nil when State is StateOK
	// Unrecorded is why the result could not be written to ZooKeeper, nil if it was.
	Unrecorded error

	moved bool // of a job that always runs: it is to run again at once, elsewhere or otherwise
}

// Causes with which a run's context is canceled.
var (
	// ErrStopping cancels runs that outlast the grace period of a stop.
	ErrStopping = errors.New("singleworker: instance is stopping")
	// ErrTimeout cancels runs that exceed their job's timeout.
	ErrTimeout = errors.New("singleworker: run timed out")
	// ErrStopped cancels runs that an operator has stopped.
	ErrStopped = errors.New("singleworker: stopped by an operator")
	// ErrMoved cancels the run of a job that always runs, because it moves or was changed.
	ErrMoved = errors.New("singleworker: job moves to another instance, or was changed")
)

// activity is a run in progress, from the claim until its result is recorded.
type activity struct {
	run      Run
	handling atomic.Bool
	always   bool            // its job has no other runs: see ticks
	ctx      context.Context //nolint:containedctx // of this run alone
	stop     context.CancelCauseFunc
	look     *time.Timer // when it may hang; nil: not known yet, or it never does
	hung     bool        // the observer was told
}

// execution is the way of a claimed run through its handler, on a separate goroutine.
type execution struct {
	runner  *Runner
	act     *activity
	job     Job
	claimed ticks.Record
	ctx     context.Context //nolint:containedctx // of the handler; nil if that is not called
	done    func()
	refused bool // by BeforeTick
}

// begin calls the handler, after BeforeTick where there is one.
func (e *execution) begin(context.Context) error {
	e.runner.cfg.Observer.Started(e.act.run)
	ctx, done, err := e.job.Lease.Begin(e.act.ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		done()
	}
	if err != nil {
		return err // the lease ended, or the run was stopped, while the claim was being written
	}
	e.ctx, e.done = ctx, done
	if timeout := e.job.Policy.Timeout; timeout > 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
		e.ctx, e.done = ctx, func() { cancel(); done() }
	}
	e.act.handling.Store(true)
	err = e.prepare()
	if e.refused = errors.Is(err, ErrRefused); err == nil {
		err = e.job.Handle(e.ctx, e.act.run)
	}
	if err != nil {
		// Both may panic on a typed nil pointer: let that happen here rather than in a caller.
		_, _ = err.Error(), errors.Is(err, ErrStopped)
	}
	return err
}

// end records how the run has ended.
func (e *execution) end(err error) {
	r := e.runner
	e.act.handling.Store(false)
	result := e.result(err)
	if e.ctx != nil {
		e.done()
	}
	e.act.stop(context.Canceled)
	if r.holds.Load() {
		r.box.Post(func() { r.hold(func() { r.record(&e.job, e.claimed, result, r.commit) }) })
	} else {
		r.record(&e.job, e.claimed, result, r.commitAlone)
	}
}

// result says how the run has ended, whose handler has returned err.
func (e *execution) result(err error) Result {
	result := Result{Run: e.act.run, moved: e.act.always}
	result.State, result.Ended = history.StateInterrupted, e.runner.cfg.Wall.Now()
	if e.ctx == nil { // neither the handler was called, nor BeforeTick
		result.Err, result.NotBegun = fmt.Errorf("claimed, not begun: %w", err), true
		return result
	}
	cause := context.Cause(e.ctx)
	result.moved = e.act.always && e.ctx.Err() != nil && !errors.Is(cause, ErrTimeout) && !errors.Is(cause, ErrStopped)
	switch {
	case result.moved && err == nil:
		result.Err = cause
	case err == nil:
		result.State = history.StateOK
	case e.refused:
		result.State, result.Err = history.StateRefused, err
	case errors.Is(err, errNotPassed):
		result.Err = err
	case e.ctx.Err() == nil:
		result.State, result.Err = history.StateFailed, err
	default:
		if errors.Is(cause, ErrTimeout) {
			result.State = history.StateTimedOut
		}
		if result.Err = err; !errors.Is(err, cause) {
			result.Err = fmt.Errorf("%w: %w", cause, err)
		}
	}
	return result
}

// outcome converts a result into the outcome that is recorded.
func outcome(result Result) ticks.Outcome {
	o := ticks.Outcome{
		State: result.State, Ended: result.Ended, Final: errors.Is(result.Err, ErrStopped), NotBegun: result.NotBegun, Moved: result.moved,
	}
	if result.Err != nil {
		o.Error = result.Err.Error()
	}
	if p := (*task.PanicError)(nil); errors.As(result.Err, &p) {
		o.Error += "\n" + string(p.Stack)
	}
	return o
}

// record writes a result. If another instance has taken the job over and recorded
// the run as interrupted or lost, record amends the history.
func (r *Runner) record(
	j *Job, from ticks.Record, result Result, commit func(c *ticks.Commit, done func(current *ticks.Record, err error)),
) {
	plan := ticks.End(*j.Job, from, outcome(result))
	commit(&ticks.Commit{Slot: j.Name, From: from, Plan: plan}, func(current *ticks.Record, err error) {
		done := func(err error) {
			result.Unrecorded = err
			r.box.Post(func() { r.ended(result, current, plan.Entries) })
		}
		switch {
		case err == nil || !errors.Is(err, ticks.ErrConflict):
			done(err)
		case current.RunID == result.RunID && current.Open():
			r.record(j, *current, result, r.commitAlone) // the run is still open; other ticks were recorded meanwhile
		default:
			r.cfg.Keeper.Amend(j.Name, plan.Entries[0], done)
		}
	})
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// Run is one execution of a handler for a claimed tick.
type Run struct {
	Job     string
	Tick    time.Time // for a manual run, when it was requested
	RunID   string
	Token   int64
	Attempt int
	Started time.Time
	Request *ticks.Request // nil for a scheduled run
}

// Result is how a run ended.
type Result struct {
	Run
	Ended time.Time
	State string
	Err   error // nil when State is ticks.OK
	// Unrecorded is why the result could not be written to ZooKeeper, nil if it was.
	Unrecorded error

	notBegun bool // the handler was not called, nor BeforeTick
	moved    bool // of a job that always runs: it is to run again at once, elsewhere or otherwise
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

// handle calls the handler of a claimed run, after BeforeTick where there is one.
func (r *Runner) handle(j *job, act *activity, claimed *ticks.Record) Result {
	r.cfg.Observer.Started(act.run)
	result := Result{Run: act.run, State: ticks.Interrupted, moved: act.always}
	ctx, done, err := j.Lease.Begin(act.ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		done()
	}
	if err != nil {
		// The lease ended, or the run was stopped, while the claim was being written.
		result.Ended, result.Err, result.notBegun = r.cfg.Wall.Now(), fmt.Errorf("claimed, not begun: %w", err), true
		return result
	}
	defer done()
	if timeout := j.Policy.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
		defer cancel()
	}
	act.handling.Store(true)
	refused := false
	err = task.Protect("handler", func() error {
		err := r.prepare(ctx, j, act, claimed)
		if refused = errors.Is(err, ErrRefused); err == nil {
			err = j.Handle(ctx, act.run)
		}
		if err != nil {
			// Both may panic on a typed nil pointer: let that happen here rather than in a caller.
			_, _ = err.Error(), errors.Is(err, ErrStopped)
		}
		return err
	})
	act.handling.Store(false)
	result.Ended = r.cfg.Wall.Now()
	cause := context.Cause(ctx)
	result.moved = act.always && ctx.Err() != nil && !errors.Is(cause, ErrTimeout) && !errors.Is(cause, ErrStopped)
	switch {
	case result.moved && err == nil:
		result.Err = cause
	case err == nil:
		result.State = ticks.OK
	case refused:
		result.State, result.Err = ticks.Refused, err
	case errors.Is(err, errNotPassed):
		result.Err = err
	case ctx.Err() == nil:
		result.State, result.Err = ticks.Failed, err
	default:
		if errors.Is(cause, ErrTimeout) {
			result.State = ticks.TimedOut
		}
		if result.Err = err; !errors.Is(err, cause) {
			result.Err = fmt.Errorf("%w: %w", cause, err)
		}
	}
	return result
}

// outcome converts a result into what is recorded.
func outcome(result Result) ticks.Outcome {
	o := ticks.Outcome{
		State: result.State, Ended: result.Ended, Final: errors.Is(result.Err, ErrStopped), NotBegun: result.notBegun, Moved: result.moved,
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
	j *job, from ticks.Record, result Result, commit func(c ticks.Commit, done func(current *ticks.Record, err error)),
) {
	plan := ticks.End(*j.Job.Job, from, outcome(result))
	commit(ticks.Commit{Slot: j.Name, From: from, Plan: plan}, func(current *ticks.Record, err error) {
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

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

// Run is one execution of a handler, for a tick that was claimed for it.
type Run struct {
	Job     string
	Tick    time.Time // of a manual run: when it was asked for
	RunID   string
	Token   int64
	Attempt int
	Started time.Time
	Request *ticks.Request // that asked for it; nil of a scheduled one
}

// Result is how a run ended.
type Result struct {
	Run
	Ended time.Time
	State string
	Err   error // nil when State is ticks.OK
	// Unrecorded says why the result is not in ZooKeeper; nil when it is.
	Unrecorded error
}

// Causes of the end of a run's context.
var (
	// ErrStopping ends runs that outlast the grace of a stop.
	ErrStopping = errors.New("instance is stopping")
	// ErrTimeout ends runs that outlast their job's timeout.
	ErrTimeout = errors.New("run timed out")
	// ErrStopped ends runs that an operator has stopped.
	ErrStopped = errors.New("stopped by an operator")
)

// activity is a run that goes on: its claim, its handler, and the record of
// its result.
type activity struct {
	run      Run
	handling atomic.Bool
	ctx      context.Context //nolint:containedctx // of this run alone
	stop     context.CancelCauseFunc
}

// handle calls the handler of a run that was claimed.
func (r *Runner) handle(j *job, act *activity) Result {
	result := Result{Run: act.run, State: ticks.Interrupted}
	ctx, done, err := j.Lease.Begin(act.ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		done()
	}
	if err != nil {
		// Claimed, and the lease ended, or it was stopped, before the answer came.
		result.Ended, result.Err = time.Now(), err
		return result
	}
	defer done()
	if timeout := j.Policy.Timeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
		defer cancel()
	}
	r.cfg.Observer.Started(act.run)
	act.handling.Store(true)
	err = task.Protect("handler", func() error {
		err := j.Handle(ctx, act.run)
		if err != nil {
			// Of a nil pointer either may panic: here, rather than in who comes to use it.
			_, _ = err.Error(), errors.Is(err, ErrStopped)
		}
		return err
	})
	act.handling.Store(false)
	result.Ended = time.Now()
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		result.State = ticks.OK
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

// outcome is what is recorded of a result.
func outcome(result Result) ticks.Outcome {
	o := ticks.Outcome{State: result.State, Ended: result.Ended, Final: errors.Is(result.Err, ErrStopped)}
	if result.Err != nil {
		o.Error = result.Err.Error()
	}
	if p := (*task.PanicError)(nil); errors.As(result.Err, &p) {
		o.Error += "\n" + string(p.Stack)
	}
	return o
}

// record writes a result down. It may find that the run was given up
// meanwhile by another instance, which took over; then the history is
// corrected.
func (r *Runner) record(j *job, from ticks.Record, result Result) (
	current ticks.Record, entries []ticks.Entry, err error,
) {
	for {
		plan := ticks.End(j.Job.Job, from, outcome(result))
		current, err = r.cfg.Keeper.Commit(ticks.Commit{Slot: j.Name, From: from, Plan: plan})
		switch {
		case err == nil || !errors.Is(err, ticks.ErrConflict):
			return current, plan.Entries, err
		case current.RunID == result.RunID && current.Open():
			from = current // only what it says of other ticks has changed
		default:
			return current, plan.Entries, r.cfg.Keeper.Amend(j.Name, plan.Entries[0])
		}
	}
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// activity is a run in progress, from the claim until its result is recorded.
type activity struct {
	run      Run
	handling atomic.Bool
	always   bool            // its job has no other runs: see ticks
	ctx      context.Context //nolint:containedctx // of this run alone
	stop     context.CancelCauseFunc
	stops    []string    // the requests to stop it, which wait for its end
	look     *time.Timer // when it may hang; nil: not known yet, or it never does
	hung     bool        // the observer was told
}

// runs are the runs in progress, each on its way through its handler to its recorded result. The
// loop owns them.
type runs struct {
	*common
	out    *outbox
	jobs   owned
	byJob  map[string]*activity    // including jobs no longer owned
	ctx    context.Context         //nolint:containedctx // the lifetime of all runs
	cancel context.CancelCauseFunc // of ctx
	tasks  *task.Group
	asks   *asks
	// ended is called on the loop when the result of a run was recorded, or could not be.
	ended func(act *activity, result Result, current *ticks.Record, entries []ticks.Entry)
}

// begin registers a run before its claim is written.
func (r *runs) begin(j *job, plan *ticks.Plan) *activity {
	record := plan.Record
	act := &activity{run: Run{Job: j.Name, Run: record.Public()}, always: record.Always}
	act.run.Tick = act.run.Tick.In(j.Schedule.Location())
	switch act.run.Due = act.run.Tick; {
	case record.Manual == "":
		act.run.Due = j.Of(j.Name, nil).Due(act.run.Tick)
	case record.Past() != "":
		act.run.Due = act.run.Started // it is not late: nothing was to run it before it was asked for
	}
	i := slices.IndexFunc(j.Requests, func(r ticks.Request) bool { return r.ID == record.Manual })
	switch {
	case plan.Backfill != nil:
		next, _ := plan.Backfill.Next()
		act.run.Request = &next
	case record.Manual != "" && i >= 0:
		act.run.Request = &j.Requests[i]
	}
	act.ctx, act.stop = context.WithCancelCause(r.ctx)
	r.byJob[j.Name] = act
	return act
}

// start runs a claimed tick.
func (r *runs) start(j *job, act *activity, claimed ticks.Record) {
	r.awaitHung(j)
	if j.labels == nil {
		j.labels = labeled(j.Name)
	}
	e := &execution{runs: r, act: act, job: j.Job, claimed: claimed, labels: j.labels} // a new spec must not affect a run in progress
	r.tasks.GoThen("handler", e.begin, e.end)
}

// stuck lists the jobs whose handlers have not returned.
func (r *runs) stuck() []string {
	returned := func(name string) bool { return !r.byJob[name].handling.Load() }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.byJob)), returned)
}

// stopError is the cause of the end of a run that an operator has asked for.
type stopError struct{ ticks.Request }

func (e *stopError) Error() string {
	return fmt.Sprintf("%v: %s", ErrStopped, strings.Trim(e.By+": "+e.Reason, ": "))
}
func (e *stopError) Unwrap() error { return ErrStopped }

// applyStops stops the run in progress if an operator has requested that, even if the
// job is no longer owned or the instance is stopping. The request stays until the run has ended,
// and says until then who waits for that. A stop request for any other run is dropped only by the
// job's owner.
func (r *runs) applyStops(name string, requests []ticks.Request) {
	act := r.byJob[name]
	for _, request := range requests {
		if !request.IsStop() {
			continue
		}
		switch ours := act != nil && act.run.RunID == request.RunID; {
		case ours && !slices.Contains(act.stops, request.ID):
			act.stops = append(act.stops, request.ID)
			act.stop(&stopError{request})
			r.after(name, stuckAfter, func() { r.lookStopped(act) })
		case !ours && r.jobs[name] != nil:
			r.cfg.Keeper.Drop(name, request.ID)
		}
	}
}

// endAlways ends the run of a job that always runs if its job has been changed from was to is: it
// would keep its first settings for ever. A pause ends no run.
func (r *runs) endAlways(was, is Job) {
	same := was.Job != nil && reflect.DeepEqual(was.Policy, is.Policy) && was.Job.From.Equal(is.Job.From) && was.To.Equal(is.To)
	if act := r.byJob[is.Name]; act != nil && act.always && !same {
		act.stop(fmt.Errorf("%w: %s", ErrMoved, is.Name))
	}
}

// stopAlways ends the runs of jobs that always run: to give them time would delay a stop for
// nothing.
func (r *runs) stopAlways() {
	for _, name := range slices.Sorted(maps.Keys(r.byJob)) {
		if act := r.byJob[name]; act.always {
			act.stop(ErrStopping)
		}
	}
}

// execution is the way of a claimed run through its handler, on a separate goroutine.
type execution struct {
	runs    *runs
	act     *activity
	job     Job
	claimed ticks.Record
	labels  context.Context //nolint:containedctx // of the goroutine
	ctx     context.Context //nolint:containedctx // of the handler; nil if that is not called
	done    func()
	refused bool            // by BeforeTick
	effects history.Effects // of an attempt before, if they were found: the handler is not called
}

// begin calls the handler, after BeforeTick where there is one.
func (e *execution) begin(context.Context) error {
	e.runs.out.begun()
	e.runs.cfg.Observer.Started(e.act.run)
	ctx, done, err := e.job.Lease.Begin(e.act.ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		done()
	}
	if err != nil {
		return err // the lease ended, or the run was stopped, while the claim was being written
	}
	if found, err := e.ask(ctx); err != nil || found {
		done()
		return err
	}
	e.ctx, e.done = ctx, done
	if timeout := e.job.Policy.Timeout; timeout > 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
		e.ctx, e.done = ctx, func() { cancel(); done() }
	}
	pprof.SetGoroutineLabels(e.labels)
	defer pprof.SetGoroutineLabels(context.Background()) // others reuse the goroutine
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
	e.act.handling.Store(false)
	result := e.result(err)
	if e.ctx != nil {
		e.done()
	}
	e.act.stop(context.Canceled)
	if out := e.runs.out; out.holds.Load() {
		out.box.Post(func() { out.hold(func() { e.record(e.claimed, result, out.commit) }) })
	} else {
		e.record(e.claimed, result, out.commitAlone)
	}
}

// result says how the run has ended, whose handler has returned err.
func (e *execution) result(err error) Result {
	result := Result{Run: e.act.run, moved: e.act.always}
	result.State, result.Ended = history.StateInterrupted, e.runs.cfg.Wall.Now()
	if by := (*stopError)(nil); errors.As(context.Cause(e.act.ctx), &by) {
		result.stop = by.Request
	}
	if e.ctx == nil && err == nil { // the effects were found
		result.State, result.Effects = history.StateOK, e.effects
		if e.effects.At.IsZero() {
			result.Effects.At = result.Ended
		}
		return result
	}
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
		State: result.State, Ended: result.Ended, Final: errors.Is(result.Err, ErrStopped) || errors.Is(result.Err, errNotRepeated),
		NotBegun: result.NotBegun, Moved: result.moved, Stop: result.stop, Effects: result.Effects,
	}
	if result.Err != nil {
		o.Error = result.Err.Error()
	}
	if p := (*task.PanicError)(nil); errors.As(result.Err, &p) {
		o.Error += "\n" + string(p.Stack)
	}
	return o
}

// record writes a result, to the record that has the run open. If another instance has taken the
// job over and recorded the run as interrupted or lost, record amends the history.
func (e *execution) record(
	from ticks.Record, result Result, commit func(c *ticks.Commit, done func(current *ticks.Record, err error)),
) {
	plan := ticks.End(*e.job.Job, from, outcome(result))
	result.Error, result.Asked, result.Effects = plan.Record.Error, plan.Record.Asked.Value(), plan.Record.Effects.Value()
	commit(&ticks.Commit{Slot: e.job.Name, From: from, Plan: plan}, func(current *ticks.Record, err error) {
		done := func(err error) {
			result.Unrecorded = err
			e.runs.box.Post(func() { e.runs.ended(e.act, result, current, plan.Entries) })
		}
		switch {
		case err == nil || !errors.Is(err, ticks.ErrConflict):
			done(err)
		case current.RunID == result.RunID && current.Open():
			e.record(*current, result, e.runs.out.commitAlone) // the run is still open; other ticks were recorded meanwhile
		default:
			e.runs.cfg.Keeper.Amend(e.job.Name, plan.Entries[0], done)
		}
	})
}

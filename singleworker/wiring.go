package singleworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// wiring joins the coordinator, which knows ZooKeeper and owners, with the
// runner, which knows schedules and handlers: neither knows the other.
type wiring struct {
	cfg      Config
	handlers map[string]Handler // fixed since Run was called
	book     *grant.Book
	hooks    *hookCaller
	runner   *runner.Runner
	coord    *coord.Coordinator

	owned map[string]*grant.Grant // only the coordinator's loop
}

var (
	_ coord.Runner    = (*wiring)(nil)
	_ runner.Claimer  = (*wiring)(nil)
	_ runner.Observer = (*wiring)(nil)
)

// judge says whether this instance can run a job.
func (w *wiring) judge(job string, spec zkrec.Spec) error {
	if handler := spec.HandlerOf(job); w.handlers[handler] == nil {
		return fmt.Errorf("handler %q: %w", handler, coord.ErrElsewhere)
	}
	_, err := parseSchedule(spec)
	return err
}

// Own passes an owned job on to the runner.
func (w *wiring) Own(o coord.Ownership) {
	schedule, err := parseSchedule(o.Spec)
	if err != nil {
		w.cfg.Logger.Error("job cannot be scheduled", "job", o.Job, "err", err)
		return // judged before: not reached
	}
	if w.owned[o.Job] != o.Grant {
		w.owned[o.Job] = o.Grant
		w.hooks.owned(Ownership{Job: o.Job, Token: o.Grant.Token})
	}
	handler := w.handlers[o.Spec.HandlerOf(o.Job)]
	args := o.Spec.Args
	job := runner.Job{
		Name: o.Job, Schedule: schedule, Grant: o.Grant,
		Handle: func(ctx context.Context, c runner.Claim) error {
			return handler(ctx, w.newRun(c, args))
		},
	}
	if o.Last.Tick != 0 {
		job.Last = time.UnixMilli(o.Last.Tick)
	}
	w.runner.Own(job)
}

func (w *wiring) newRun(c runner.Claim, args map[string]string) *Run {
	return &Run{
		ID: c.RunID, Job: c.Job, Tick: c.Tick, Attempt: c.Attempt, Token: c.Token,
		InstanceID: w.cfg.InstanceID, Args: maps.Clone(args),
		log: w.cfg.Logger.With("job_name", c.Job, "run_id", c.RunID, "tick", c.Tick, "token", c.Token),
	}
}

// Disown stops further runs of a job.
func (w *wiring) Disown(job string, cause error) {
	w.runner.Disown(job)
	if g := w.owned[job]; g != nil {
		delete(w.owned, job)
		w.hooks.released(Ownership{Job: job, Token: g.Token}, cause)
	}
}

// Claim reserves a tick in ZooKeeper.
func (w *wiring) Claim(c runner.Claim) error {
	return w.coord.Claim(c.Job, w.record(c, zkrec.RunRunning))
}

// Finish records the result of a run in ZooKeeper.
func (w *wiring) Finish(r runner.Result) error {
	record := w.record(r.Claim, r.State)
	record.Ended = r.Ended.UnixMilli()
	if r.Err != nil {
		record.Error = r.Err.Error()
	}
	return w.coord.Finish(r.Job, record)
}

func (w *wiring) record(c runner.Claim, state string) zkrec.Tick {
	return zkrec.Tick{Through: c.Tick.UnixMilli(), Run: zkrec.Run{
		Tick: c.Tick.UnixMilli(), RunID: c.RunID, SID: w.cfg.InstanceID, Token: c.Token,
		Attempt: c.Attempt, Started: c.Started.UnixMilli(), State: state,
	}}
}

// Started reports the beginning of a run.
func (w *wiring) Started(c runner.Claim) { w.hooks.runStarted(infoOf(c)) }

// Ended reports the end of a run, and logs one that failed.
func (w *wiring) Ended(r runner.Result) {
	if r.State != runner.OK {
		attrs := []any{
			"job", r.Job, "run_id", r.RunID, "tick", r.Tick, "state", r.State,
			"duration", r.Ended.Sub(r.Started), "err", r.Err,
		}
		if p := (*task.PanicError)(nil); errors.As(r.Err, &p) {
			attrs = append(attrs, "stack", string(p.Stack))
		}
		w.cfg.Logger.Error("run not successful", attrs...)
	}
	w.hooks.runEnded(RunResult{RunInfo: infoOf(r.Claim), Ended: r.Ended, State: r.State, Err: r.Err})
}

// Skipped reports a tick that was not run here.
func (w *wiring) Skipped(job string, tick time.Time, err error) {
	level := slog.LevelWarn
	if errors.Is(err, coord.ErrClaimed) || errors.Is(err, coord.ErrNotOwner) {
		level = slog.LevelDebug // another instance runs it
	}
	w.cfg.Logger.Log(context.Background(), level, "tick not run here", "job", job, "tick", tick, "reason", err)
	w.hooks.skipped(job, tick, err)
}

func infoOf(c runner.Claim) RunInfo {
	return RunInfo{
		ID: c.RunID, Job: c.Job, Tick: c.Tick, Attempt: c.Attempt, Token: c.Token, Started: c.Started,
	}
}

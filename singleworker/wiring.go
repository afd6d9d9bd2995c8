package singleworker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
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
	_ runner.Keeper   = (*wiring)(nil)
	_ runner.Observer = (*wiring)(nil)
)

// judge says whether this instance can run a job.
func (w *wiring) judge(job string, spec zkrec.Spec) error {
	if handler := spec.HandlerOf(job); w.handlers[handler] == nil {
		return fmt.Errorf("handler %q: %w", handler, coord.ErrElsewhere)
	}
	_, err := ledgerOf(spec)
	return err
}

// watch says which tick of a job is overdue.
func (w *wiring) watch(_ string, spec zkrec.Spec, record zkrec.Tick, running bool) (tick, lookAgain time.Time) {
	job, err := ledgerOf(spec)
	if err != nil {
		return time.Time{}, time.Time{} // it cannot run anywhere, which judge says
	}
	return ledger.Overdue(job, record, running, time.Now())
}

// soon says whether a tick of a job is so near that the job stays where it is.
func (w *wiring) soon(_ string, spec zkrec.Spec) bool {
	job, err := ledgerOf(spec)
	return err == nil && ledger.Soon(job, time.Now())
}

// Own passes an owned job on to the runner.
func (w *wiring) Own(o coord.Ownership) {
	job, err := ledgerOf(o.Spec)
	if err != nil {
		w.cfg.Logger.Error("job cannot be scheduled", "job", o.Job, "err", err)
		return // judged before: not reached
	}
	if w.owned[o.Job] != o.Grant {
		w.owned[o.Job] = o.Grant
		w.hooks.owned(Ownership{Job: o.Job, Token: o.Grant.Token})
	}
	handler := w.handlers[o.Spec.HandlerOf(o.Job)]
	w.runner.Own(runner.Job{
		Job: job, Name: o.Job, Grant: o.Grant, Since: o.Since, Record: o.Record,
		Requests: requestsOf(o.Requests),
		Handle: func(ctx context.Context, r runner.Run) error {
			return handler(ctx, w.newRun(r, o.Spec))
		},
	})
}

// Requested passes on what operators ask for.
func (w *wiring) Requested(job string, requests []coord.Request) {
	w.runner.Requested(job, requestsOf(requests))
}

func requestsOf(requests []coord.Request) []runner.Request {
	var list []runner.Request
	for _, r := range requests {
		request := runner.Request{ID: r.ID, At: r.At, Args: r.Args, Payload: r.Payload}
		switch r.Kind {
		case zkrec.RequestRun:
		case zkrec.RequestStop:
			request.Stop, request.Why = r.RunID, strings.Trim(r.By+": "+r.Reason, ": ")
		default:
			continue // of a newer version
		}
		list = append(list, request)
	}
	return list
}

func (w *wiring) newRun(r runner.Run, spec zkrec.Spec) *Run {
	run := &Run{
		ID: r.RunID, Job: r.Job, Tick: r.Tick, Manual: r.Request != nil, Attempt: r.Attempt, Token: r.Token,
		InstanceID: w.cfg.InstanceID, Args: maps.Clone(spec.Args), Payload: slices.Clone(spec.Payload),
		log: w.cfg.Logger.With("job_name", r.Job, "run_id", r.RunID, "tick", r.Tick, "token", r.Token),
	}
	if r.Request == nil {
		return run
	}
	if run.Args == nil {
		run.Args = make(map[string]string)
	}
	maps.Copy(run.Args, r.Request.Args)
	if len(r.Request.Payload) > 0 {
		run.Payload = slices.Clone(r.Request.Payload)
	}
	return run
}

// Disown stops further runs of a job.
func (w *wiring) Disown(job string, cause error) {
	w.runner.Disown(job)
	if g := w.owned[job]; g != nil {
		delete(w.owned, job)
		w.hooks.released(Ownership{Job: job, Token: g.Token}, cause)
	}
}

// Overdue reports a tick that nobody has accounted for.
func (w *wiring) Overdue(job string, tick time.Time) {
	w.cfg.Logger.Error("tick was neither run nor skipped by anybody", "job", job, "tick", tick,
		"late", time.Since(tick).Round(time.Second))
	w.hooks.tickMissed(job, tick)
}

// Commit makes a decision true in ZooKeeper.
func (w *wiring) Commit(c runner.Commit) (ledger.Record, error) {
	current, err := w.coord.Commit(coord.Commit{
		Job: c.Job, Token: c.Token, From: c.From, To: c.Plan.Record,
		Entries: c.Plan.Entries, Request: c.Plan.Request,
	})
	switch {
	case errors.Is(err, coord.ErrConflict):
		err = ledger.ErrConflict
	case errors.Is(err, coord.ErrNoRequest):
		err = ledger.ErrNoRequest
	}
	return current, err
}

// Amend corrects the history of a run that was given up too early.
func (w *wiring) Amend(job string, e ledger.Entry) error { return w.coord.Amend(job, e) }

// Drop removes a request that is done with.
func (w *wiring) Drop(job, request string) { w.coord.Drop(job, request) }

// Started reports the beginning of a run.
func (w *wiring) Started(r runner.Run) { w.hooks.runStarted(infoOf(r)) }

// Ended reports the end of a run, and logs one that failed.
func (w *wiring) Ended(r runner.Result) {
	if r.State != runner.OK {
		attrs := []any{
			"job", r.Job, "run_id", r.RunID, "tick", r.Tick, "attempt", r.Attempt, "state", r.State,
			"duration", r.Ended.Sub(r.Started), "err", r.Err,
		}
		if p := (*task.PanicError)(nil); errors.As(r.Err, &p) {
			attrs = append(attrs, "stack", string(p.Stack))
		}
		w.cfg.Logger.Error("run not successful", attrs...)
	}
	w.hooks.runEnded(RunResult{
		RunInfo: infoOf(r.Run), Ended: r.Ended, State: State(r.State), Err: r.Err, Unrecorded: r.Unrecorded,
	})
}

// Recorded reports what became of ticks, and logs those that were not run.
func (w *wiring) Recorded(job string, entries []ledger.Entry) {
	for _, record := range entries {
		e := entryOf(job, record)
		if e.RunID == "" {
			w.cfg.Logger.Warn("ticks not run", "job", job, "tick", e.Tick, "to", e.To, "count", e.Count,
				"state", e.State, "reason", e.Reason)
		}
		w.hooks.recorded(e)
	}
}

func entryOf(job string, e ledger.Entry) Entry {
	entry := Entry{
		Job: job, Tick: time.UnixMilli(e.Tick), To: time.UnixMilli(e.Last()), Count: e.Ticks(),
		State: State(e.State), Reason: e.Reason, RunID: e.RunID, Manual: e.Manual != "", Attempt: e.Attempt,
		Ended: time.UnixMilli(e.Ended), Error: e.Error, InstanceID: e.SID, Token: e.Token,
	}
	if e.Started != 0 {
		entry.Started = time.UnixMilli(e.Started)
	}
	return entry
}

func infoOf(r runner.Run) RunInfo {
	return RunInfo{
		ID: r.RunID, Job: r.Job, Tick: r.Tick, Manual: r.Request != nil, Attempt: r.Attempt,
		Token: r.Token, Started: r.Started,
	}
}

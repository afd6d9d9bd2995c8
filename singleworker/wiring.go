package singleworker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// wiring joins the coordinator, which knows ZooKeeper and owners, with the
// runner, which knows schedules and handlers: neither knows the other.
type wiring struct {
	cfg      Config
	handlers map[string]Handler // fixed since Run was called
	leases   *leases.Table
	hooks    *hookCaller
	runner   *runner.Runner
	coord    *coord.Coordinator

	owned map[string]*leases.Lease // by slot; only the coordinator's loop

	mu     sync.Mutex
	shards map[string]Shard // by slot, of all that were ever owned
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
	_, err := ticksOf(spec)
	return err
}

// watch says which tick of a job is overdue.
func (w *wiring) watch(spec zkrec.Spec, record zkrec.Tick, running bool) (tick, lookAgain time.Time) {
	job, err := ticksOf(spec)
	if err != nil {
		return time.Time{}, time.Time{} // it cannot run anywhere, which judge says
	}
	return ticks.Overdue(job, record, running, time.Now())
}

// soon says whether a tick of a job is so near that the job stays where it is.
func (w *wiring) soon(spec zkrec.Spec) bool {
	job, err := ticksOf(spec)
	return err == nil && ticks.Soon(job, time.Now())
}

// settled says whether a slot has nothing left to do before the job is divided
// anew.
func (w *wiring) settled(spec zkrec.Spec, record zkrec.Tick) bool {
	job, err := ticksOf(spec)
	return err == nil && ticks.Settled(job, record)
}

// Own passes an owned slot on to the runner.
func (w *wiring) Own(o coord.Ownership) {
	job, err := ticksOf(o.Spec)
	if err != nil {
		w.cfg.Logger.Error("job cannot be scheduled", "job", o.Slot, "err", err)
		return // judged before: not reached
	}
	name, shard := zkrec.JobOfSlot(o.Slot), shardOf(o.Slot, o.Spec)
	w.mu.Lock()
	w.shards[o.Slot] = shard
	w.mu.Unlock()
	if w.owned[o.Slot] != o.Lease {
		w.owned[o.Slot] = o.Lease
		w.hooks.owned(Ownership{Job: name, Shard: shard, Token: o.Lease.Token})
	}
	handler := w.handlers[o.Spec.HandlerOf(name)]
	w.runner.Own(runner.Job{
		Job: job, Name: o.Slot, SpecVersion: o.SpecVersion, Lease: o.Lease, Since: o.Since, Record: o.Record,
		Requests: requestsOf(o.Requests),
		Handle: func(ctx context.Context, r runner.Run) error {
			return handler(ctx, w.newRun(r, o.Spec))
		},
	})
}

// part names the job and the shard of a slot that is, or was, owned here.
func (w *wiring) part(slot string) (job string, shard Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return zkrec.JobOfSlot(slot), w.shards[slot]
}

// Requested passes on what operators ask for.
func (w *wiring) Requested(slot string, requests []coord.Request) {
	w.runner.Requested(slot, requestsOf(requests))
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
		ID: r.RunID, Job: zkrec.JobOfSlot(r.Job), Shard: shardOf(r.Job, spec), Tick: r.Tick, Manual: r.Request != nil, Attempt: r.Attempt, Token: r.Token,
		InstanceID: w.cfg.InstanceID, Args: maps.Clone(spec.Args), Payload: slices.Clone(spec.Payload),
		log: w.cfg.handlersLogger().With("job", r.Job, "run_id", r.RunID, "tick", r.Tick, "token", r.Token),
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

// Disown stops further runs of a slot.
func (w *wiring) Disown(slot string, cause error) {
	w.runner.Disown(slot)
	if g := w.owned[slot]; g != nil {
		delete(w.owned, slot)
		job, shard := w.part(slot)
		w.hooks.released(Ownership{Job: job, Shard: shard, Token: g.Token}, cause)
	}
}

// Overdue reports a tick that nobody has accounted for.
func (w *wiring) Overdue(slot string, tick time.Time) {
	w.cfg.Logger.Error("tick was neither run nor skipped by anybody", "job", slot, "tick", tick,
		"late", time.Since(tick).Round(time.Second))
	w.hooks.tickMissed(slot, tick)
}

// Completed reports a tick that all shards of a job are done with.
func (w *wiring) Completed(job string, spec zkrec.Spec, c ticks.Completion) {
	result := TickResult{Job: job, Tick: time.UnixMilli(c.Tick)}
	for i, e := range c.Shards {
		result.Shards = append(result.Shards, entryOf(job, shardOf(zkrec.ShardSlot(job, i), spec), e))
	}
	w.hooks.tickComplete(result)
}

// Commit makes a decision true in ZooKeeper.
func (w *wiring) Commit(c runner.Commit) (ticks.Record, error) {
	current, err := w.coord.Commit(coord.Commit{
		Slot: c.Job, Token: c.Token, SpecVersion: c.SpecVersion, From: c.From, To: c.Plan.Record,
		Entries: c.Plan.Entries, Request: c.Plan.Request,
	})
	switch {
	case errors.Is(err, coord.ErrConflict):
		err = ticks.ErrConflict
	case errors.Is(err, coord.ErrNoRequest):
		err = ticks.ErrNoRequest
	case errors.Is(err, coord.ErrSpecChanged):
		err = ticks.ErrOutdated
	}
	return current, err
}

// Amend corrects the history of a run that was given up too early.
func (w *wiring) Amend(slot string, e ticks.Entry) error { return w.coord.Amend(slot, e) }

// Drop removes a request that is done with.
func (w *wiring) Drop(slot, request string) { w.coord.Drop(slot, request) }

// Started reports the beginning of a run.
func (w *wiring) Started(r runner.Run) { w.hooks.runStarted(w.infoOf(r)) }

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
		RunInfo: w.infoOf(r.Run), Ended: r.Ended, State: State(r.State), Err: r.Err, Unrecorded: r.Unrecorded,
	})
}

// Recorded reports what became of ticks, and logs those that were not run.
func (w *wiring) Recorded(slot string, entries []ticks.Entry) {
	job, shard := w.part(slot)
	for _, record := range entries {
		e := entryOf(job, shard, record)
		if e.RunID == "" {
			w.cfg.Logger.Warn("ticks not run", "job", slot, "tick", e.Tick, "to", e.To, "count", e.Count,
				"state", e.State, "reason", e.Reason)
		}
		w.hooks.recorded(e)
	}
}

func entryOf(job string, shard Shard, e ticks.Entry) Entry {
	entry := Entry{
		Job: job, Shard: shard, Tick: time.UnixMilli(e.Tick), To: time.UnixMilli(e.Last()), Count: e.Ticks(),
		State: State(e.State), Reason: e.Reason, RunID: e.RunID, Manual: e.Manual != "", Attempt: e.Attempt,
		Error: e.Error, InstanceID: e.SID, Token: e.Token,
	}
	if e.Started != 0 {
		entry.Started = time.UnixMilli(e.Started)
	}
	if e.Ended != 0 {
		entry.Ended = time.UnixMilli(e.Ended)
	}
	return entry
}

func (w *wiring) infoOf(r runner.Run) RunInfo {
	job, shard := w.part(r.Job)
	return RunInfo{
		ID: r.RunID, Job: job, Shard: shard, Tick: r.Tick, Manual: r.Request != nil, Attempt: r.Attempt,
		Token: r.Token, Started: r.Started,
	}
}

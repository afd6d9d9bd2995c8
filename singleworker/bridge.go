package singleworker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// bridge connects the coordinator, which knows ZooKeeper and owners, with the runner, which knows
// schedules and handlers, and calls the hooks for events of both.
type bridge struct {
	cfg      Config
	life     context.Context //nolint:containedctx // ends with the coordinator, with ErrNotRunning as its cause
	handlers *handlers
	clock    *leases.Clock
	leases   *leases.Table
	hooks    *hookCaller
	runner   *runner.Runner
	coord    *coord.Coordinator
	counts   *counts

	owned map[string]*leases.Lease // by slot; used only by the coordinator's loop
	quiet quiet

	mu     sync.Mutex
	shards map[string]Shard // by slot, including former ones; only of jobs with shards
}

var (
	_ coord.Runner    = (*bridge)(nil)
	_ runner.Observer = (*bridge)(nil)
	_ runner.Keeper   = (*coord.Coordinator)(nil)
)

// handlers are the instance's handlers by name. None is ever removed. Safe for concurrent use.
type handlers struct {
	mu     sync.RWMutex
	byName map[string]Handler
}

func (h *handlers) of(name string) Handler {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byName[name]
}

// add reports whether the name was free.
func (h *handlers) add(name string, f Handler) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.byName[name]; twice {
		return false
	}
	if h.byName == nil {
		h.byName = make(map[string]Handler)
	}
	h.byName[name] = f
	return true
}

// names lists them; it is not nil, for an empty list is published, too.
func (h *handlers) names() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.AppendSeq([]string{}, maps.Keys(h.byName))
}

// Has implements catalog.Handlers.
func (h *handlers) Has(name string) bool { return h.of(name) != nil }

// Own passes an owned slot to the runner.
func (w *bridge) Own(o journal.Ownership) {
	name, shard := zkrec.JobOfSlot(o.Slot), shardOf(o.Slot, o.Spec)
	if name != o.Slot {
		w.mu.Lock()
		w.shards[o.Slot] = shard
		w.mu.Unlock()
	}
	if w.owned[o.Slot] != o.Lease {
		w.owned[o.Slot] = o.Lease
		w.counts.owned(name, string(o.Origin), *o.Record)
		w.hooks.owned(Ownership{Job: name, Shard: shard, Token: o.Lease.Token})
	}
	handler, spec := w.handlers.of(o.Spec.Job.HandlerName()), o.Spec
	owned := runner.Job{
		Job: o.Job, Name: o.Slot, Lease: o.Lease, Since: o.Since, From: o.From, Record: o.Record, Requests: o.Requests, Gate: o.Gate,
		Handle: func(ctx context.Context, r runner.Run) error {
			return handler(ctx, w.newRun(r, spec))
		},
	}
	if resolve := w.cfg.Resolve; resolve != nil {
		owned.Resolve = func(ctx context.Context, r runner.Run) (Effects, bool, error) { return resolve(ctx, w.newRun(r, spec)) }
	}
	if layout := spec.ActiveLayout(); layout.Calls(o.Slot) {
		before := w.handlers.of(layout.BeforeTick)
		owned.Before = func(ctx context.Context, r runner.Run) error {
			run := w.newRun(r, spec)
			run.BeforeTick = true
			return before(ctx, run)
		}
	}
	w.runner.Own(owned)
}

// Begun passes on which ticks have begun in a job's first shard.
func (w *bridge) Room(slot string)                 { w.runner.Room(slot) }
func (w *bridge) Begun(slot string, g *ticks.Gate) { w.runner.Begun(slot, g) }

// part returns the job and the shard of a slot that is or was owned here.
func (w *bridge) part(slot string) (job string, shard Shard) {
	if job = zkrec.JobOfSlot(slot); job == slot {
		return job, Shard{Total: 1}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return job, w.shards[slot]
}

// Requested passes operators' requests to the runner.
func (w *bridge) Requested(slot string, requests []ticks.Request) { w.runner.Requested(slot, requests) }

func (w *bridge) newRun(r runner.Run, spec *zkrec.Spec) *Run {
	run := &Run{
		ID: r.RunID, Group: w.cfg.ServerType, Job: zkrec.JobOfSlot(r.Job), Slot: r.Job, Shard: shardOf(r.Job, spec),
		Tick: r.Tick, Manual: r.Manual != "", Request: r.Manual, Past: r.Past, Attempt: r.Attempt, Token: r.Token,
		InstanceID: w.cfg.InstanceID, Everywhere: spec.Job.Everywhere, Args: maps.Clone(spec.Job.Args), Payload: slices.Clone(spec.Job.Payload),
		log: sync.OnceValue(func() *slog.Logger {
			return w.cfg.handlersLogger().With("job", r.Job, "run_id", r.RunID, "tick", r.Tick, "token", r.Token)
		}),
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

// Full reports whether this instance may start no further run now.
func (w *bridge) Full() bool { return w.runner.Full() }

// Disown stops further runs of a slot.
func (w *bridge) Disown(slot string, cause error) {
	w.runner.Disown(slot)
	if g := w.owned[slot]; g != nil {
		delete(w.owned, slot)
		job, shard := w.part(slot)
		w.counts.released(job, cause)
		w.hooks.released(Ownership{Job: job, Shard: shard, Token: g.Token}, cause)
	}
}

// Evict ends the run of a slot that is to move.
func (w *bridge) Evict(slot string) { w.runner.Evict(slot) }

// Overdue reports a tick that nobody has accounted for in time.
func (w *bridge) Overdue(slot string, spec *zkrec.Spec, tick time.Time) {
	w.cfg.Logger.Error("tick missed", "job", slot, "tick", tick, "late", time.Since(tick).Round(time.Second).String())
	w.counts.overdue()
	_, sid, _ := zkrec.SplitInstance(slot)
	w.hooks.tickMissed(Missed{Job: zkrec.JobOfSlot(slot), Shard: shardOf(slot, spec), InstanceID: sid, Tick: tick})
}

// Completed reports a tick that all shards of a job have finished.
func (w *bridge) Completed(job string, c ticks.Completion) {
	result := TickResult{Job: job, Tick: zkrec.Time(c.Tick)}
	for _, e := range c.Shards {
		result.Shards = append(result.Shards, e.Public())
	}
	w.hooks.tickComplete(result)
}

// SessionChanged reports that the session is in another state.
func (w *bridge) SessionChanged(to session.State, timeout time.Duration) {
	w.counts.session(SessionState(to))
	w.hooks.session(SessionEvent{State: SessionState(to), At: w.clock.Wall(), SessionTimeout: timeout})
}

// Leads reports that a term as the leader has begun.
func (w *bridge) Leads(token int64) { w.hooks.leadershipGained(Leadership{token}) }

// LeadsNoMore reports that it has ended.
func (w *bridge) LeadsNoMore(token int64, cause error) {
	w.hooks.leadershipLost(Leadership{token}, cause)
}

// TakenOver counts a slot that was taken from an owner that had been silent for so long.
func (w *bridge) TakenOver(silent time.Duration) { w.counts.takenOver(silent) }

// ClockChanged reports that this instance's clock is wrong, or right again.
func (w *bridge) ClockChanged(wrong bool, ahead offset.Interval) {
	w.hooks.clock(Clock{Wrong: wrong, Offset: ahead.Mid(), Bound: ahead.Bound()})
}

// clockStepped is called when the wall clock was set, or the machine suspended.
func (w *bridge) clockStepped() {
	w.coord.ClockStepped()
	w.runner.ClockStepped()
}

// Started reports the start of a run.
func (w *bridge) Started(r runner.Run) {
	info := w.infoOf(r)
	w.counts.started(info, w.clock.Wall().Sub(r.Due))
	w.hooks.runStarted(info)
}

// Refused reports a run that could not be claimed.
func (w *bridge) Refused(slot string, err error) { w.counts.refused(zkrec.JobOfSlot(slot), err) }

// Ended reports the end of a run, and logs one that failed.
func (w *bridge) Ended(r runner.Result) {
	if r.State == history.StateRefused {
		w.cfg.Logger.Info("tick refused", "job", r.Job, "run_id", r.RunID, "tick", r.Tick, "attempt", r.Attempt, "reason", r.Err)
	} else if r.State != history.StateOK {
		attrs := []any{
			"job", r.Job, "run_id", r.RunID, "tick", r.Tick, "attempt", r.Attempt, "state", r.State,
			"duration", r.Ended.Sub(r.Started).String(), "err", r.Err,
		}
		if p := (*task.PanicError)(nil); errors.As(r.Err, &p) {
			attrs = append(attrs, "stack", string(p.Stack))
		}
		w.cfg.Logger.Error("run failed", attrs...)
	}
	result := RunResult{RunInfo: w.infoOf(r.Run), Err: r.Err, Unrecorded: r.Unrecorded}
	w.counts.ended(result)
	w.hooks.runEnded(result)
}

// Hung reports and logs a run that hangs.
func (w *bridge) Hung(r runner.Run, usual time.Duration) {
	w.cfg.Logger.Warn("run hangs", "job", r.Job, "run_id", r.RunID, "tick", r.Tick, "attempt", r.Attempt,
		"running", w.clock.Wall().Sub(r.Started).Round(time.Second).String(), "usual", usual.String())
	info := w.infoOf(r)
	w.counts.hung(info)
	w.hooks.runHung(HungRun{info, usual})
}

// Recorded reports history entries, and logs ticks that were not run.
func (w *bridge) Recorded(slot string, entries []ticks.Entry) {
	for _, record := range entries {
		e := Recorded{Job: zkrec.JobOfSlot(slot), Entry: record.Public()}
		if _, index, sharded := job.SplitShard(slot); sharded {
			e.Shard = &index
		}
		if e.RunID == "" {
			w.quiet.notRun(w.cfg.Logger, slot, record)
			w.counts.notRun(e)
		}
		w.hooks.recorded(e)
	}
}

func (w *bridge) infoOf(r runner.Run) RunInfo {
	job, shard := w.part(r.Job)
	return RunInfo{Job: job, Shard: shard, Run: r.Run}
}

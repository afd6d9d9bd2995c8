package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The states of a tick that no run and no entry of the history has: only an Explanation tells them.
const (
	FateComing    history.State = "coming"      // of an explanation: it is in the future
	FateDue       history.State = "due"         // of an explanation: not claimed or recorded as not run yet
	FateLate      history.State = "late"        // of an explanation: due, for longer than Job.AlarmAfter
	FatePaused    history.State = "paused"      // of an explanation: due, because the job is or was paused, or its group frozen
	FateWaiting   history.State = "before_tick" // of an explanation: due, and the shard waits for Job.BeforeTick
	FateAfter     history.State = "after"       // of an explanation: due, and it waits for the jobs of Job.After
	FateLimited   history.State = "limited"     // of an explanation: due, and it waits for places of limits: see JobStatus.Limited
	FateForgotten history.State = "forgotten"   // of an explanation: it was accounted for, and the history no longer has it
	FateNone      history.State = "none"        // of an explanation: there is no tick to explain
)

// fates are sorted by how much they need attention.
var fates = []history.State{
	history.StateUnreadable, FateLate, history.StateLost, history.StateUnknown, history.StateFailed, history.StateTimedOut, history.StateInterrupted, history.StateMissed, history.StateRefused, FateDue,
	FateWaiting, FateAfter, FateLimited, history.StateRunning, FatePaused, history.StateSkipped, FateForgotten, FateComing, history.StateOK, FateNone,
}

// ByFate compares what became of two ticks: that which needs more attention comes first, and before
// it a state that this version does not know.
func ByFate(a, b history.State) int { return slices.Index(fates, a) - slices.Index(fates, b) }

// Explanation is what the records say about one tick of a job, or of one shard.
type Explanation struct {
	Job   JobStatus `json:"job"`
	Asked time.Time `json:"asked,omitzero"` // the requested time
	// Tick is the tick that is explained; zero if the job has no such tick.
	Tick time.Time `json:"tick,omitzero"`
	// Fate is what became of it; for a job with shards, the fate of the shard that needs
	// attention most.
	Fate history.State `json:"fate"`
	// Reason is why it was not run; empty if it was.
	Reason history.Reason `json:"reason,omitempty"`
	// Entries are the records of the tick, newest first: each attempt of a run, or the row
	// of ticks that it was skipped or missed in; for a job with shards, by shard.
	Entries []history.Entry `json:"items"`
	// Unreadable says why the records do not tell what became of the tick; empty if they do.
	Unreadable string `json:"unreadable,omitempty"`

	// History is all that the records have of the job or shard, newest first; nil for a
	// job with shards.
	History []history.Entry `json:"history,omitempty"`
	// Pause is the last pause on record, in force or over, if it covers the tick; else nil. Freeze is
	// the freeze of the group that does.
	Pause  *Pause `json:"pause,omitempty"`
	Freeze *Pause `json:"freeze,omitempty"`
	// ScheduleSince is when the schedule took effect.
	ScheduleSince time.Time `json:"schedule_since,omitzero"`
	// ShardsSince is the last tick of the shards as they were before the last change of
	// shards; zero if they never changed.
	ShardsSince time.Time `json:"shards_since,omitzero"`
	// Stop is the pending request to stop the run that is in progress. Stack is where the handler was
	// of a run that did not end when it was told to, as Request.Stack. Only Client.Why tells.
	Stop  *Request `json:"stop,omitempty"`
	Stack string   `json:"stack,omitempty"`
	// Outage is one in which ZooKeeper did not answer between the tick and the end of its run, or at
	// the requested time. Leader is who leads, if the group is in latch mode. Only Client.Why tells.
	Outage *Outage `json:"outage,omitempty"`
	Leader *Leader `json:"leader,omitempty"`
	// At is when the records were read.
	At time.Time `json:"at"`

	// Shards explain the tick for each shard of a job, by index; nil for a job without
	// shards, and for a single shard.
	Shards []Explanation `json:"shards,omitempty"`
}

// Why explains the tick of a job at a time, or else the last tick before it; the zero time
// stands for now. A time within the second of a manual run means that run. A job with
// shards is explained shard by shard; the name of a shard, "report[3]", means that shard.
// Everything is read from ZooKeeper: no instance is asked. Errors: *invalid.FieldError for the
// name, ErrNotFound, ErrNoShard, ErrUnreadable for a shard, ErrDenied, ErrUnavailable.
func (c *Client) Why(ctx context.Context, name string, at time.Time) (Explanation, error) {
	p, err := c.readPast(ctx, "why", name)
	if err != nil {
		return Explanation{}, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("why %q", name), func() (Explanation, error) { return c.around(ctx, name, p.Why(at)) })
}

// around adds to an explanation the contents of records beside ticks.
func (o observer) around(ctx context.Context, slot string, x Explanation) (Explanation, error) {
	if len(x.Entries) > 0 && len(x.Shards) == 0 {
		if err := o.stopping(ctx, slot, &x, x.Entries[0].Run); err != nil {
			return x, err
		}
	}
	outages, err := o.outages(ctx)
	if err != nil && !errors.Is(err, ErrDenied) {
		return x, err
	}
	x.Outage = x.outage(outages)
	if x.Leader, err = o.leader(ctx); errors.Is(err, ErrDenied) {
		err = nil // who may not read the queue learns nothing of it
	}
	return x, err
}

// JobDetails is all that the records had of a job, or of a shard, when they were read.
type JobDetails struct {
	History

	// Requests are the pending ones, as Client.Requests has them: none, if they may not be read.
	Requests []Request
	// Why explains a tick as Client.Why does, any number of them, and reads nothing. Safe for
	// concurrent use.
	Why func(at time.Time) Explanation
}

// readPast is Job without its Requests, and with the status of the records alone. question is
// for errors.
func (o observer) readPast(ctx context.Context, question, name string) (JobDetails, error) {
	job, pasts, err := o.readPasts(ctx, question, name)
	if err != nil {
		return JobDetails{}, err
	}
	return detailsOf(job, pasts, o.clock.now()), nil
}

// detailsOf has the history of a job and its ticks by records that were read at that moment.
func detailsOf(job JobStatus, pasts []past, at moment) JobDetails {
	why := func(asked time.Time) Explanation {
		if len(job.Slots) > 0 && pasts[0].of.err == nil {
			return explainShards(job, pasts, asked, at)
		}
		return pasts[0].explain(asked, at)
	}
	return JobDetails{History: History{Job: job, Entries: merged(pasts)}, Why: why}
}

// stopping adds who waits for the end of a run, and where its handler was some seconds later.
func (o observer) stopping(ctx context.Context, slot string, x *Explanation, run history.Run) (err error) {
	if run.State == history.StateRunning {
		waiting, err := o.waiting(ctx, slot)
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(waiting)) {
			if w := waiting[id]; w.Kind == RequestStop && w.RunID == run.RunID {
				stop := requestOf(id, slot, w)
				x.Stop = &stop
			}
		}
	}
	if x.Stop != nil || run.StoppedBy != "" {
		x.Stack, err = o.stack(ctx, slot, run.RunID)
	}
	return err
}

// explain is Why for records that were read at that moment.
func (p past) explain(asked time.Time, at moment) Explanation {
	since := p.of.spec.Since
	x := Explanation{
		Job: p.job, Asked: zkrec.UTC(asked), Fate: FateNone, History: p.newestFirst(),
		ScheduleSince: zkrec.Time(since), ShardsSince: zkrec.Time(p.of.spec.ActiveLayout().Since), At: zkrec.UTC(at.now),
	}
	if asked.IsZero() {
		x.Asked = x.At
	}
	if p.of.err != nil {
		return x
	}
	x.Tick = zkrec.UTC(p.tickAt(x, since))
	for _, e := range x.History {
		if covers(e, x.Tick) {
			x.Entries = append(x.Entries, e)
		}
	}
	if pause := p.of.spec.Switch.Paused; pause.Covers(x.Tick) {
		x.Pause = pauseOf(*pause)
	}
	for _, span := range p.of.frozen {
		if span.Covers(x.Tick) {
			x.Freeze = pauseOf(span)
		}
	}
	if !x.Tick.IsZero() {
		p.judge(&x, at.certain)
	}
	return x
}

// tickAt is the tick that is meant by x.Asked.
func (p past) tickAt(x Explanation, since int64) time.Time {
	tick := p.lastTick(x.Asked, zkrec.Time(since))
	if tick.IsZero() && x.Asked.Equal(x.At) {
		tick = p.of.ticks(p.records).Schedule.Next(x.At) // the first of a new job
	}
	for _, e := range x.History {
		sameSecond := e.Tick.Unix() == x.Asked.Unix()
		if e.Manual != "" && sameSecond && !tick.Equal(x.Asked) {
			tick = e.Tick
		}
		if older := !e.Tick.IsZero() && !e.Tick.After(x.Asked); tick.IsZero() && older {
			tick = e.Tick // of a schedule before the former one
		}
	}
	return tick
}

// lastTick is the last tick up to the time asked for, of the schedule that was in effect
// then.
func (p past) lastTick(asked, since time.Time) time.Time {
	before := asked.Truncate(time.Millisecond).Add(time.Millisecond) // ticks are of whole milliseconds
	if tick := p.of.ticks(p.records).Schedule.Prev(before); tick.After(since) {
		return tick
	}
	until := since
	for former := p.of.spec.Former; former != nil; former = former.Former {
		began := time.UnixMilli(former.Since)
		old, err := former.Job(p.of.spec.Job).ParseSchedule()
		if err != nil {
			return time.Time{}
		}
		if before.After(until) {
			before = until.Add(time.Millisecond)
		}
		if tick := old.Prev(before); tick.After(began) {
			return tick
		}
		until = began
	}
	return time.Time{}
}

// covers reports whether an entry is about a tick.
func covers(e history.Entry, tick time.Time) bool {
	if e.RunID != "" {
		return e.Tick.Equal(tick)
	}
	return !tick.IsZero() && !e.Tick.IsZero() && !tick.Before(e.Tick) && !tick.After(e.To)
}

// judge sets the outcome of x.Tick. The time is certain to have come.
func (p past) judge(x *Explanation, certain time.Time) {
	due := p.of.ticks(p.records).Due(x.Tick)
	switch {
	case len(x.Entries) > 0:
		x.Fate, x.Reason = x.Entries[0].State, x.Entries[0].Reason
	case x.Tick.After(x.At), x.Tick.After(zkrec.Time(p.tick.Watermark)) && due.After(x.At):
		x.Fate = FateComing
	case p.tickErr != nil:
		x.Fate, x.Unreadable = history.StateUnreadable, p.tickErr.Error()
	case !x.Tick.After(zkrec.Time(p.tick.Watermark)):
		x.Fate = FateForgotten
		if p.historyErr != nil {
			x.Unreadable = p.historyErr.Error()
		}
	case x.Pause != nil:
		x.Fate, x.Reason = FatePaused, history.ReasonPaused
	case x.Freeze != nil:
		x.Fate, x.Reason = FatePaused, history.ReasonFrozen
	case !x.Job.Waiting.IsZero() && !x.Tick.Before(x.Job.Waiting):
		if x.Fate = FateWaiting; len(x.Job.Job.After) > 0 {
			x.Fate = FateAfter
		}
	case len(x.Job.Limited) > 0 && !due.Before(x.Job.Limited[0].Since):
		x.Fate = FateLimited
	case x.Job.LastRun != nil && x.Job.LastRun.State == history.StateRunning:
		x.Fate = FateDue
	case certain.Sub(due) < x.Job.Job.AlarmAfter && (x.Job.Overdue.IsZero() || x.Job.Overdue.After(x.Tick)):
		x.Fate = FateDue
	default:
		x.Fate = FateLate
	}
}

// explainShards explains a tick for each shard of a job that was judged at that moment. A shard
// that never had the tick has FateNone.
func explainShards(job JobStatus, pasts []past, asked time.Time, at moment) Explanation {
	x := Explanation{Job: job, Asked: zkrec.UTC(asked), Fate: FateNone, At: zkrec.UTC(at.now)}
	if asked.IsZero() {
		x.Asked = x.At
	}
	for _, p := range pasts {
		shard := p.explain(asked, at)
		if p.job.isAbsent() && len(shard.Entries) == 0 {
			shard.Fate, shard.Reason = FateNone, "" // it is not that instance's tick
		}
		if shard.Tick.After(x.Tick) {
			x.Tick = shard.Tick
		}
		x.ScheduleSince, x.ShardsSince = shard.ScheduleSince, shard.ShardsSince
		x.Shards = append(x.Shards, shard)
	}
	for i := range x.Shards {
		shard := &x.Shards[i]
		if !shard.Tick.Equal(x.Tick) {
			shard.Fate = FateNone
		}
		if shard.Fate != FateNone {
			x.Entries = append(x.Entries, shard.Entries...)
		}
		if ByFate(shard.Fate, x.Fate) < 0 {
			x.Fate, x.Reason = shard.Fate, shard.Reason
		}
	}
	return x
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// job is an owned job: what is known of its record, and what wakes it. Its
// Record is kept up to date.
type job struct {
	Job
	alarm      *alarm
	id         uuid.UUID // gocron's
	rung       time.Time // the last tick that the alarm went off for
	committing bool      // a decision is on its way
	wake       *time.Timer
}

// wakeAt has f called at a time, instead of what was arranged before; never,
// when the time is zero.
func (j *job) wakeAt(t time.Time, f func()) {
	if j.wake != nil {
		j.wake.Stop()
		j.wake = nil
	}
	if !t.IsZero() {
		j.wake = time.AfterFunc(time.Until(t), f)
	}
}

// due: gocron's timer for j has ended.
func (r *Runner) due(j *job, alarm *alarm) {
	if j.alarm != alarm {
		return // of a schedule that was replaced since
	}
	if tick, ok := alarm.due(time.Now()); ok {
		j.rung = tick
		r.decide(j)
	}
}

// decide does what the job's records, and the time, ask for.
func (r *Runner) decide(j *job) {
	if r.jobs[j.Name] != j || j.committing {
		return // disowned; or it is asked again when the commit has ended
	}
	plan := ticks.Next(r.view(j))
	j.wakeAt(plan.Wake, func() { r.box.Post(func() { r.decide(j) }) })
	if !plan.Change {
		return
	}
	j.committing = true
	commit := ticks.Commit{Slot: j.Name, Token: j.Lease.Token, SpecVersion: j.SpecVersion, From: j.Record, Plan: plan}
	var act *activity
	if plan.Opens {
		act = r.begin(j, plan.Record)
	}
	r.tasks.Go("commit of "+j.Name, func(context.Context) error {
		current, err := r.cfg.Keeper.Commit(commit)
		r.box.Post(func() { r.committed(j, commit, act, current, err) })
		return nil
	})
}

func (r *Runner) view(j *job) ticks.View {
	v := ticks.View{
		Job: j.Job.Job, Record: j.Record, Now: time.Now(),
		SID: r.cfg.InstanceID, Token: j.Lease.Token, OwnedSince: j.Since, RunID: uuid.NewString(),
	}
	if v.Now.Before(j.rung) && j.Record.Watermark < j.rung.UnixMilli() {
		v.Now = j.rung // its timer has ended, and its tick waits: the clock was set back since
	}
	if act := r.running[j.Name]; act != nil {
		v.Active = act.run.RunID
	}
	for _, request := range j.Requests {
		if request.IsRun() {
			v.Requests = append(v.Requests, request)
		}
	}
	return v
}

// begin notes that a run is about to go on.
func (r *Runner) begin(j *job, record ticks.Record) *activity {
	act := &activity{run: Run{
		Job: j.Name, Tick: time.UnixMilli(record.Tick).In(j.Schedule.Location()), RunID: record.RunID, Token: record.Token,
		Attempt: record.Attempt, Started: time.UnixMilli(record.Started),
	}}
	i := slices.IndexFunc(j.Requests, func(r ticks.Request) bool { return r.ID == record.Manual })
	if record.Manual != "" && i >= 0 {
		act.run.Request = &j.Requests[i]
	}
	act.ctx, act.stop = context.WithCancelCause(r.runs)
	r.running[j.Name] = act
	return act
}

// retryAfter is how soon a decision is made again that could not be written.
const retryAfter = time.Second

func (r *Runner) committed(j *job, commit ticks.Commit, act *activity, current ticks.Record, err error) {
	j.committing = false
	plan := commit.Plan
	switch {
	case err == nil:
		r.remember(j.Name, current)
		r.forget(j, plan.Request)
		r.report(j.Name, plan.Entries)
		if act != nil {
			r.start(j, act, current)
		}
	case act != nil:
		act.stop(err)
		delete(r.running, j.Name)
	}
	switch {
	case err == nil:
	case errors.Is(err, ticks.ErrConflict):
		r.remember(j.Name, current)
		r.warnAhead(j)
	case errors.Is(err, ticks.ErrNoRequest):
		r.forget(j, plan.Record.Manual)
	case errors.Is(err, ticks.ErrSpecChanged) && j.SpecVersion != commit.SpecVersion: // and the new one is known already
	default:
		// The job is passing to another instance, or the lease has lapsed and
		// may come back.
		r.log.Debug("decision on ticks not written", "job", j.Name, "err", err)
		j.wakeAt(time.Now().Add(retryAfter), func() { r.box.Post(func() { r.decide(j) }) })
		return
	}
	r.again(j.Name)
}

// again decides on the job of that name, whose state has changed.
func (r *Runner) again(name string) {
	if j := r.jobs[name]; j != nil {
		r.decide(j)
	}
}

// remember notes what a job's record is.
func (r *Runner) remember(name string, record ticks.Record) {
	if j := r.jobs[name]; j != nil {
		j.Record = record
	}
}

// forget drops a request that is done with.
func (r *Runner) forget(j *job, request string) {
	j.Requests = slices.DeleteFunc(slices.Clone(j.Requests), func(r ticks.Request) bool { return r.ID == request })
}

// start runs a claimed tick.
func (r *Runner) start(j *job, act *activity, claimed ticks.Record) {
	snapshot := *j // a new specification must not reach a run that goes on
	r.tasks.Go("run of "+j.Name, func(context.Context) error {
		result := r.handle(&snapshot, act)
		act.stop(context.Canceled)
		current, entries, err := r.record(&snapshot, claimed, result)
		result.Unrecorded = err
		r.box.Post(func() { r.ended(result, current, entries) })
		return nil
	})
}

// ended: the result of a run is recorded, or cannot be.
func (r *Runner) ended(result Result, current ticks.Record, entries []ticks.Entry) {
	delete(r.running, result.Job)
	if result.Unrecorded != nil {
		r.log.Warn("result of a run was not recorded", "job", result.Job, "tick", result.Tick,
			"run_id", result.RunID, "state", result.State, "err", result.Unrecorded)
	} else {
		r.remember(result.Job, current)
		r.report(result.Job, entries)
		// Of a run that was given up, the record is another run's.
		final := current.RunID == result.RunID && current.NextAttempt == ""
		if j := r.jobs[result.Job]; j != nil && result.Request != nil && final {
			r.forget(j, result.Request.ID)
		}
	}
	r.cfg.Observer.Ended(result)
	r.again(result.Job)
}

func (r *Runner) report(job string, entries []ticks.Entry) {
	if len(entries) > 0 {
		r.cfg.Observer.Recorded(job, entries)
	}
}

// heed stops the runs that operators want to end: also one that goes on although
// its job is not owned any more, or the instance is stopping. A request for a run that
// is not this instance's is for the job's owner to drop.
func (r *Runner) heed(name string, requests []ticks.Request) {
	act := r.running[name]
	for _, request := range requests {
		if !request.IsStop() {
			continue
		}
		ours := act != nil && act.run.RunID == request.RunID
		if ours {
			act.stop(fmt.Errorf("%w: %s", ErrStopped, strings.Trim(request.By+": "+request.Reason, ": ")))
		}
		if ours || r.jobs[name] != nil {
			r.cfg.Keeper.Drop(name, request.ID)
		}
	}
}

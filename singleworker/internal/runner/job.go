package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// job is an owned job with its latest known record, its alarm and its timer.
type job struct {
	Job
	alarm      *alarm
	place      int       // in alarm.jobs
	lastDue    int64     // the last tick that has come, in ns
	committing bool      // a decision is being written
	waitsSince time.Time // when it first had a run to open, and the runner was full; zero if none waits
	inLine     bool      // in Runner.line
	evicted    bool      // the run in progress was canceled for the slot to move
	heldUntil  time.Time // no run begins before, for the slot to move
	wake       *time.Timer
}

// wakeAt calls f on the loop at the given time. It replaces a previous call of wakeAt; a zero
// time only cancels that.
func (r *Runner) wakeAt(j *job, t time.Time, f func()) {
	if j.wake != nil {
		j.wake.Stop()
		j.wake = nil
	}
	if !t.IsZero() {
		j.wake = r.after(j.Name, t.Sub(r.cfg.Wall.Now()), f)
	}
}

// after calls f on the loop when d has passed, unless the timer is stopped before. name is the
// job's, or "".
func (r *Runner) after(name string, d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(r.cfg.Chance.Apart("timer "+name, d), func() { r.box.Post(f) })
}

// due is called when gocron's timer for an alarm fires.
func (r *Runner) due(a *alarm) {
	for {
		tick, in, ok := a.due(time.Now())
		if !ok {
			return
		}
		r.expect(a, tick, in)
	}
}

// decide takes the next step according to the job's records and the time.
func (r *Runner) decide(j *job) {
	if r.jobs[j.Name] != j || j.committing {
		return // disowned, or called again when the commit has ended
	}
	if held := time.Until(j.heldUntil); held > 0 {
		r.wakeAt(j, r.cfg.Wall.Now().Add(held), func() { r.decide(j) })
		return
	}
	plan := ticks.Next(r.view(j))
	r.wakeAt(j, plan.Wake, func() { r.decide(j) })
	if plan.Opens && r.full() && !j.Schedule.Always() {
		r.queue(j)
		return
	}
	if plan.Opens || !plan.Change {
		j.waitsSince = time.Time{}
	}
	if !plan.Change {
		return
	}
	j.committing = true
	commit := &ticks.Commit{Slot: j.Name, Token: j.Lease.Token, Version: j.Version, From: *j.Record, Plan: plan}
	var act *activity
	if plan.Opens {
		act = r.begin(j, plan.Record)
	}
	r.commit(commit, func(current *ticks.Record, err error) {
		r.box.Post(func() { r.committed(j, commit, act, current, err) })
	})
}

func (r *Runner) view(j *job) ticks.View {
	v := ticks.View{
		Job: j.Of(j.Name, j.Gate), Record: *j.Record, Now: r.cfg.Wall.Now(),
		SID: r.cfg.InstanceID, Token: j.Lease.Token, OwnedSince: j.Since, TakenFrom: j.From, RunID: r.cfg.Chance.ID(j.Name),
		Full: r.full(), WaitsSince: j.waitsSince,
	}
	if due := time.Unix(0, j.lastDue); v.Now.Before(due) && j.Record.Watermark < due.UnixMilli() {
		v.Now = due // the wall clock was set back
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

// begin registers a run before its claim is written.
func (r *Runner) begin(j *job, record ticks.Record) *activity {
	act := &activity{run: Run{Job: j.Name, Run: record.Public()}, always: record.Always}
	act.run.Tick = act.run.Tick.In(j.Schedule.Location())
	i := slices.IndexFunc(j.Requests, func(r ticks.Request) bool { return r.ID == record.Manual })
	if record.Manual != "" && i >= 0 {
		act.run.Request = &j.Requests[i]
	}
	act.ctx, act.stop = context.WithCancelCause(r.runs)
	r.running[j.Name] = act
	if act.always {
		r.endless++
	}
	r.atLimit.Store(r.full())
	return act
}

// retryAfter is the delay before a decision that could not be written is made again.
const retryAfter = time.Second

func (r *Runner) committed(j *job, commit *ticks.Commit, act *activity, current *ticks.Record, err error) {
	j.committing = false
	plan, withheld := &commit.Plan, err
	if errors.Is(err, ticks.ErrWithheld) {
		err = nil // it was written
	} else if r.stopping {
		withheld = ErrStopping
	}
	switch {
	case err == nil:
		r.remember(j.Name, current)
		r.forget(j, plan.Request)
		r.report(j.Name, plan.Entries)
		if act != nil {
			if withheld != nil {
				act.stop(withheld) // the handler is not called
			}
			r.start(j, act, *current)
		}
	case act != nil:
		r.cfg.Observer.Refused(j.Name, err)
		act.stop(err)
		r.done(j.Name)
	}
	switch {
	case err == nil:
	case errors.Is(err, ticks.ErrConflict):
		r.remember(j.Name, current)
		r.warnAhead(j)
	case errors.Is(err, ticks.ErrNoRequest):
		r.forget(j, plan.Record.Manual)
	case errors.Is(err, ticks.ErrSpecChanged) && j.Version != commit.Version: // the new spec is known already
	default:
		// The job is moving to another instance, or the lease has lapsed and
		// may be renewed.
		r.log.Debug("tick decision not written, retrying", "job", j.Name, "err", err)
		r.wakeAt(j, r.cfg.Wall.Now().Add(retryAfter), func() { r.decide(j) })
		return
	}
	r.decideByName(j.Name)
}

// decideByName calls decide for a job whose state has changed, if it is still owned.
func (r *Runner) decideByName(name string) {
	if j := r.jobs[name]; j != nil {
		r.decide(j)
	}
}

// remember updates a job's latest known record.
func (r *Runner) remember(name string, record *ticks.Record) {
	if j := r.jobs[name]; j != nil {
		j.Record = record
	}
}

// forget drops a completed or canceled request.
func (r *Runner) forget(j *job, request string) {
	j.Requests = slices.DeleteFunc(slices.Clone(j.Requests), func(r ticks.Request) bool { return r.ID == request })
}

// start runs a claimed tick.
func (r *Runner) start(j *job, act *activity, claimed ticks.Record) {
	r.awaitHung(j)
	e := &execution{runner: r, act: act, job: j.Job, claimed: claimed} // a new spec must not affect a run in progress
	r.tasks.GoThen("handler", e.begin, e.end)
}

// ended is called when the result of a run was recorded, or could not be.
func (r *Runner) ended(result Result, current *ticks.Record, entries []ticks.Entry) {
	if j := r.jobs[result.Job]; j != nil && j.evicted {
		j.evicted, j.heldUntil = false, time.Now().Add(holdEvicted)
	}
	if result.Unrecorded != nil {
		r.log.Warn("run result not recorded", "job", result.Job, "tick", result.Tick,
			"run_id", result.RunID, "state", result.State, "err", result.Unrecorded)
	} else {
		r.remember(result.Job, current)
		r.report(result.Job, entries)
		// If another owner took the slot over, the record may be another run's.
		final := current.RunID == result.RunID && current.NextAttempt == ""
		if j := r.jobs[result.Job]; j != nil && result.Request != nil && final {
			r.forget(j, result.Request.ID)
		}
	}
	r.cfg.Observer.Ended(result)
	r.done(result.Job) // those that wait go before the next run of this job
	r.decideByName(result.Job)
}

func (r *Runner) report(job string, entries []ticks.Entry) {
	if len(entries) > 0 {
		r.cfg.Observer.Recorded(job, entries)
	}
}

// applyStops stops the run in progress if an operator has requested that, even if the
// job is no longer owned or the instance is stopping. A stop request for any other
// run is dropped only by the job's owner.
func (r *Runner) applyStops(name string, requests []ticks.Request) {
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

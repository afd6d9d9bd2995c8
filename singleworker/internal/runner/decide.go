package runner

import (
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// come decides on the jobs that have a tick now.
func (r *Runner) come(tick time.Time, together []*job) {
	if len(together) >= crowd {
		r.out.holdBack()
	}
	for _, j := range together {
		j.lastDue = tick.UnixNano()
		r.decide(j)
	}
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
	full := plan.Opens && r.line.full() && !j.Schedule.Always()
	final := plan.Opens || !plan.Change // else another decision follows
	if j.limited && final && (full || !plan.Opens || len(j.Policy.Limits) == 0) {
		r.cfg.Keeper.LeaveLine(j.Name)
	}
	if full {
		r.out.release() // it waits for the results
		r.line.add(j, r.cfg.Wall.Now())
		return
	}
	if final {
		j.waitsSince, j.limited = time.Time{}, false
	}
	if !plan.Change {
		return
	}
	j.committing = true
	commit := &ticks.Commit{Slot: j.Name, Token: j.Lease.Token, Version: j.Version, From: *j.Record, Plan: plan, Limits: j.Policy.Limits, Gate: j.Gate}
	var act *activity
	if plan.Opens {
		r.out.unbegun.Add(1)
		if act = r.runs.begin(j, &commit.Plan); !act.always {
			r.line.enter()
		}
	}
	r.out.commit(commit, func(current *ticks.Record, err error) {
		r.box.Post(func() { r.committed(j, commit, act, current, err) })
	})
}

func (r *Runner) view(j *job) ticks.View {
	v := ticks.View{
		Job: j.Of(j.Name, j.Gate), Record: *j.Record, Now: r.cfg.Wall.Now(),
		SID: r.cfg.InstanceID, Token: j.Lease.Token, OwnedSince: j.Since, TakenFrom: j.From, RunID: r.cfg.Chance.ID(j.Name),
		Full: r.line.full(), WaitsSince: j.waitsSince, Limited: j.limited,
	}
	if due := time.Unix(0, j.lastDue); v.Now.Before(due) && j.Record.Watermark < due.UnixMilli() {
		v.Now = due // the wall clock was set back
	}
	if act := r.runs.byJob[j.Name]; act != nil {
		v.Active = act.run.RunID
	}
	for _, r := range j.Requests {
		switch {
		case r.IsRun():
			v.Requests = append(v.Requests, r)
		case r.RunID == j.Record.RunID:
			v.Stop = r
		}
	}
	return v
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
		r.jobs.remember(j.Name, current)
		j.forget(plan.Request)
		if plan.Backfill != nil {
			j.forget(plan.Backfill.ID) // until its owner's journal has read the rest
			j.Requests = append(j.Requests, *act.run.Request)
		}
		r.report(j.Name, plan.Entries)
		if act != nil {
			if withheld != nil {
				act.stop(withheld) // the handler is not called
			}
			r.runs.start(j, act, *current)
		}
	case act != nil:
		r.out.begun()
		if !errors.Is(err, ticks.ErrLimited) {
			r.cfg.Observer.Refused(j.Name, err)
		}
		act.stop(err)
		r.done(act)
	}
	switch {
	case err == nil:
	case errors.Is(err, ticks.ErrLimited): // until the keeper tells that there may be a place, or something else happens
		j.waitsSince, j.limited = time.UnixMilli(plan.Record.WaitsSince()), true
		return
	case errors.Is(err, ticks.ErrConflict):
		r.jobs.remember(j.Name, current)
		r.warnAhead(j)
	case errors.Is(err, ticks.ErrNoRequest) && plan.Backfill != nil:
		j.forget(plan.Backfill.ID)
	case errors.Is(err, ticks.ErrNoRequest):
		j.forget(plan.Record.Manual)
	case errors.Is(err, ticks.ErrSpecChanged) && j.Version != commit.Version: // the new spec is known already
	default:
		// The job is moving to another instance, or the lease has lapsed and
		// may be renewed.
		r.cfg.Logger.Debug("tick decision not written, retrying", "job", j.Name, "err", err)
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

// holdEvicted is for how long an evicted slot waits to be handed over: with a server that answers
// it takes milliseconds. If it is not, because another slot went meanwhile, it runs here again.
const holdEvicted = time.Second

// ended is called when the result of a run was recorded, or could not be.
func (r *Runner) ended(act *activity, result Result, current *ticks.Record, entries []ticks.Entry) {
	if j := r.jobs[result.Job]; j != nil && j.evicted {
		j.evicted, j.heldUntil = false, time.Now().Add(holdEvicted)
	}
	if result.Unrecorded != nil {
		r.cfg.Logger.Warn("run result not recorded", "job", result.Job, "tick", result.Tick,
			"run_id", result.RunID, "state", result.State, "err", result.Unrecorded)
	} else {
		r.jobs.remember(result.Job, current)
		r.report(result.Job, entries)
		// If another owner took the slot over, the record may be another run's.
		final := current.RunID == result.RunID && current.NextAttempt == ""
		if j := r.jobs[result.Job]; j != nil && result.Request != nil && final {
			j.forget(result.Request.ID)
		}
	}
	r.cfg.Observer.Ended(result)
	r.done(act) // those that wait go before the next run of this job
	r.decideByName(result.Job)
}

// done forgets a run, and lets the jobs that wait begin theirs.
func (r *Runner) done(act *activity) {
	act.noLook()
	for _, request := range act.stops {
		r.cfg.Keeper.Drop(act.run.Job, request)
	}
	delete(r.runs.byJob, act.run.Job)
	if !act.always {
		r.line.leave()
	}
	r.line.call(r.decide)
}

func (r *Runner) report(job string, entries []ticks.Entry) {
	if len(entries) > 0 {
		r.cfg.Observer.Recorded(job, entries)
	}
}

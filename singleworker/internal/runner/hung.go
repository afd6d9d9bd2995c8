package runner

import (
	"cmp"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// lookAgain is when a run is looked at again whose history could not be read.
const lookAgain = time.Minute

// noLook drops the look that lookIn has set.
func (a *activity) noLook() {
	if a.look != nil {
		a.look.Stop()
		a.look = nil
	}
}

// awaitHung has the run of a job looked at when it may hang: the job has come, was changed, or has
// begun to run.
func (r *runs) awaitHung(j *job) {
	act := r.byJob[j.Name]
	if act == nil || act.always || act.hung {
		return
	}
	after := cmp.Or(j.Policy.HungAfter, ticks.HungAtLeast)
	if after < 0 {
		act.noLook()
		return
	}
	r.lookIn(act, act.run.Started.Add(after).Sub(r.cfg.Wall.Now()))
}

// lookIn has a run looked at after some time, in place of an earlier look.
func (r *runs) lookIn(act *activity, wait time.Duration) {
	act.noLook()
	act.look = r.after(act.run.Job, wait, func() { r.lookHung(act) })
}

// lookHung reads the history, without which nobody knows how long a run takes.
func (r *runs) lookHung(act *activity) {
	if r.hangs(act) == nil {
		return
	}
	r.cfg.Keeper.History(act.run.Job, func(entries []ticks.Entry, err error) {
		r.box.Post(func() { r.judgeHung(act, entries, err) })
	})
}

// hangs is the job of a run that may hang: it is in its handler, still owned, and was not told of.
func (r *runs) hangs(act *activity) *job {
	j := r.jobs[act.run.Job]
	if r.byJob[act.run.Job] != act || j == nil || j.Lease.Token != act.run.Token || act.hung || !act.handling.Load() {
		return nil
	}
	return j
}

// judgeHung tells of a run that hangs, or looks at it again when it would.
func (r *runs) judgeHung(act *activity, entries []ticks.Entry, err error) {
	j := r.hangs(act)
	if j == nil {
		return
	}
	if err != nil {
		r.cfg.Logger.Debug("history not read, trying again", "job", j.Name, "err", err)
		r.lookIn(act, lookAgain)
		return
	}
	from, usual := ticks.HangsFrom(j.Of(j.Name, nil).By(*j.Record), j.Record.Run, entries)
	switch wait := from.Sub(r.cfg.Wall.Now()); {
	case from.IsZero(): // never
	case wait > 0:
		r.lookIn(act, wait)
	default:
		act.hung = true
		r.cfg.Observer.Hung(act.run, usual)
	}
}

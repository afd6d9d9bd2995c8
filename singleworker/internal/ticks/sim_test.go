package ticks_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// mutant breaks a rule of the package on the way into it or out.
type mutant struct {
	view func(v *ticks.View)
	plan func(v ticks.View, p *ticks.Plan)
	job  func(j *ticks.Job) // of End
	end  func(p *ticks.Plan)
	// unjudged disables the oracle: only the final account may notice.
	unjudged bool
}

func (m mutant) sound() bool { return m.view == nil && m.plan == nil && m.job == nil && m.end == nil }

func (m mutant) onView(v *ticks.View) {
	if m.view != nil {
		own(&v.Job)
		m.view(v)
	}
}

func (m mutant) onJob(j *ticks.Job) {
	if m.job != nil {
		own(j)
		m.job(j)
	}
}

// own gives j a policy and a pause that it does not share.
func own(j *ticks.Job) {
	policy := *j.Policy
	j.Policy = &policy
	if j.Paused != nil {
		pause := *j.Paused
		j.Paused = &pause
	}
}

func (m mutant) onPlan(v ticks.View, p *ticks.Plan) {
	if m.plan != nil {
		m.plan(v, p)
	}
}

func (m mutant) onEnd(p *ticks.Plan) {
	if m.end != nil {
		m.end(p)
	}
}

// TestSimulation drives Next and End as owners do, in virtual time: schedules
// from each second to each day, with daylight saving; owners that die, stop,
// hang, lose the job and get it back, or are late; hours without any; clocks
// that jump; changes that are lost; runs that fail, are interrupted, kill their
// owner or last long; schedules and policies that are replaced, pauses, and
// requests, which may be canceled; and times in which the job always runs. It verifies that
//
//  1. Watermark only grows;
//  2. each tick of each schedule, up to Watermark, is in one final state, and
//     none is beyond it; a tick is claimed again only as the next attempt after
//     one that failed or was interrupted;
//  3. rows name actual ticks and count them correctly;
//  4. at most one run is in progress;
//  5. the record and the history agree, and say who did what, when;
//  6. each plan and each result follows the policies, tick by tick, with attempts, failures and
//     reasons as they were counted from outside;
//  7. the history's entry of each run agrees with its handler;
//  8. it settles: at once while no time passes, and after faults stop;
//  9. there is no alarm without a cause, and Wake is never in the past;
//  10. no request starves;
//  11. a run that is to be repeated is, or is given up for a reason.
func TestSimulation(t *testing.T) {
	t.Parallel()
	const aMillion = 36 // seeds come to a million ticks
	ticks, ran, always, steps := 0, 0, 0, 0
	seeds := simkit.Test(t, aMillion, worlds(mutant{}), func(w *world) {
		ticks += w.check.ticks
		ran += w.check.ran
		always += w.check.always
		steps += w.steps
	})
	if ticks < 1_000_000 && seeds >= aMillion {
		t.Errorf("only %d ticks", ticks)
	}
	t.Logf("%d seeds, %d ticks, %d of them run, %d of these in the time in which the job always ran, %d steps", seeds, ticks, ran, always, steps)
}

// worlds are the simulations of a mutant.
func worlds(m mutant) func(seed uint64) *world {
	return func(seed uint64) *world { return newWorld(seed, m) }
}

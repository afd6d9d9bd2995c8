package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The oracle for the time in which the job always runs: its ticks are no times of a schedule, but
// when its runs are due, one after the other. The pauses between them are counted here, not read
// from the record.

// following is the next run of a job that always runs.
type following struct {
	at       int64 // when the pause ends; 0: at once
	restarts int   // how many runs before it did not last
}

// after is the pause after a run that has ended: it lasts for the policy's time, doubled for each
// run before that did not last, up to five minutes; for the time itself if this one lasted, which
// is ten minutes; and not at all if it was moved.
func (f following) after(of ticks.Job, started, ended int64, moved bool) following {
	const longest, lasting = 300_000, 600_000
	pause := max(of.Policy.WithDefaults().Backoff.Milliseconds(), 1)
	lasted := ended-started >= lasting
	for range f.restarts {
		if pause < longest && !lasted {
			pause = min(2*pause, longest)
		}
	}
	next := following{ended + pause, f.restarts + 1}
	if moved {
		next = following{ended, f.restarts}
	}
	if lasted {
		next.restarts = 0
	}
	return next
}

// follow notes the pause after a run that has ended.
func (c *checker) follow(e ticks.Entry) {
	of := c.w.job()
	lost := of.Schedule.Always() && e.Manual == "" && c.handlers[e.RunID] == ""
	if c.following = c.following.after(of, e.Started, e.Ended, c.moved); !lost && !c.endless[e.RunID] {
		c.following = following{}
	}
	c.moved = false
}

// judgeFollowing verifies the next run in the plan that records the end of a run.
func (c *checker) judgeFollowing(of ticks.Job, p ticks.Plan) {
	r := p.Record
	next := c.following.after(of, r.Started, r.Ended, c.moved)
	if r.RestartAt != next.at || r.NextAttempt != "" || p.Request != "" {
		c.w.failf("(6) after %s, %d before did not last, moved: %v: again at %s, want %s; %q", r.State, c.following.restarts, c.moved,
			clock(r.RestartAt), clock(next.at), r.NextAttempt)
	}
}

// judgeLostAlways is about a run whose owner is gone: it is recorded, and the next one follows it.
func (c *checker) judgeLostAlways(v ticks.View, p ticks.Plan) {
	if len(p.Entries) != 1 || p.Entries[0].RunID != v.Record.RunID || p.Entries[0].State != history.StateInterrupted || p.Opens ||
		p.Record.Ended != v.Now.UnixMilli() {
		c.w.failf("(6) the run is interrupted; the plan: %s", say(v.Record, p))
	}
	c.judgeFollowing(v.Job, p)
	c.sameTick(v, v.Record.Run, p)
}

// judgeAlways is about the time between two runs.
func (c *checker) judgeAlways(v ticks.View, p ticks.Plan) {
	r, now := v.Record, v.Now.UnixMilli()
	_, former := c.pending(v)
	first := max(v.Since.UnixMilli(), r.Watermark) + 1
	due := max(first, c.following.at)
	withdrawn := "" // none that waits is run
	for _, q := range v.Requests {
		if again := r.Again(); withdrawn == "" && (again.NextAttempt == "" || q.ID != again.Manual) {
			withdrawn = q.ID
		}
	}
	switch {
	case !lasts(v.Paused, now) && r.Again().NextAttempt != "":
		if p.Opens || !p.Change || len(p.Entries) > 0 || p.Record.NextAttempt != "" || p.Record.NextAttemptAt != 0 ||
			r.NextAttempt == "" && p.Record.Held != (zkrec.Held{}) {
			c.w.failf("(6) what was to be repeated of a former schedule is given up; the plan: %s", say(r, p))
		}
		c.sameTick(v, r.Run, p)
	case withdrawn != "":
		if p.Request != withdrawn || p.Opens || len(p.Entries) > 0 || p.Record != r {
			c.w.failf("(6) %s is withdrawn; the plan: %s", withdrawn, say(r, p))
		}
	case lasts(v.Paused, now):
		c.judgeFormer(v, p)
	case len(former) > 0:
		c.judgeFormer(v, p)
	case due > now && (now >= r.Ended || r.Watermark < v.Since.UnixMilli()):
		c.wantNothing(p)
		if !p.Wake.Equal(time.UnixMilli(due)) {
			c.w.failf("(6) the next run at %s; the plan: %s", clock(due), say(r, p))
		}
	default:
		tick := due
		if due > now { // the clock was set back, which prolongs no pause
			tick = first
		}
		run := p.Record.Run
		if !p.Opens || run.Tick != tick || p.Record.Watermark != tick || run.Attempt != 1 || run.Manual != "" || len(p.Entries) > 0 ||
			run.Restarts != c.following.restarts {
			c.w.failf("(6) the run of %s, after %d that did not last; the plan: %s", clock(tick), c.following.restarts, say(r, p))
		}
	}
}

// TestMutantsOfAlways is TestMutants for the time in which the job always runs.
func TestMutantsOfAlways(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		property string
		mutant   mutant
	}{
		{"a job that always runs does not pause", "(6)", mutant{view: func(v *ticks.View) { v.Record.RestartAt = 0 }}},
		{"its pauses do not grow", "(6)", mutant{view: func(v *ticks.View) { v.Record.Restarts = 0 }}},
		{"its pause is a second shorter", "(6)", mutant{end: func(p *ticks.Plan) { p.Record.RestartAt = max(p.Record.RestartAt-1000, 0) }}},
		{"one of its runs is repeated when it has another schedule", "(6)", mutant{view: func(v *ticks.View) { v.Record.Always = false }}},
		{"requests of a former schedule wait", "(6)", mutant{view: func(v *ticks.View) {
			if v.Schedule.Always() && !v.Record.Open() {
				v.Requests = nil
			}
		}}},
		{"what it was to repeat is not forgotten", "(6)", mutant{plan: func(v ticks.View, p *ticks.Plan) {
			if v.Schedule.Always() && v.Record.Again().NextAttempt != "" && p.Change {
				*p = ticks.Plan{}
			}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simkit.Caught(t, 200, worlds(tt.mutant), tt.property)
		})
	}
}

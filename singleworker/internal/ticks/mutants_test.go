package ticks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// isRow reports whether an entry is about ticks that are not run.
func isRow(e ticks.Entry) bool { return e.RunID == "" }

// onRows changes the rows of a plan.
func onRows(change func(v ticks.View, p *ticks.Plan, row *ticks.Entry)) func(ticks.View, *ticks.Plan) {
	return func(v ticks.View, p *ticks.Plan) {
		p.Entries = slices.Clone(p.Entries)
		for i := range p.Entries {
			if isRow(p.Entries[i]) {
				change(v, p, &p.Entries[i])
			}
		}
	}
}

// newTick reports whether a plan opens the first run of a tick.
func newTick(p *ticks.Plan) bool { return p.Opens && p.Record.Manual == "" && p.Record.Attempt == 1 }

// TestMutants shows that the checker notices a broken rule. A mutant
// that survives means a rule without effect or a test too weak to fail.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		property string
		mutant   mutant
	}{
		{"Watermark goes back", "(1)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if p.Change && !newTick(p) && p.Record.Watermark > 0 {
				p.Record.Watermark = v.Record.Watermark - 1000
			}
		}}},
		{"a row is left out", "(2) nothing is known", mutant{unjudged: true, plan: func(_ ticks.View, p *ticks.Plan) {
			p.Entries = slices.DeleteFunc(slices.Clone(p.Entries), isRow)
		}}},
		{"a row ends a tick early", "(2) nothing is known", mutant{unjudged: true, plan: onRows(func(v ticks.View, _ *ticks.Plan, row *ticks.Entry) {
			if row.Count > 2 && row.Count < zkrec.MaxCount && row.Reason != history.ReasonScheduleChanged {
				row.Count--
				row.To = v.Schedule.Prev(time.UnixMilli(row.To)).UnixMilli()
			}
		})}},
		{"a row ends with the tick that is run", "(2)", mutant{unjudged: true, plan: onRows(func(_ ticks.View, p *ticks.Plan, row *ticks.Entry) {
			if newTick(p) {
				row.Count, row.To = max(row.Count, 1)+1, p.Record.Tick
			}
		})}},
		{"a row counts one too many", "(3)", mutant{unjudged: true, plan: onRows(func(_ ticks.View, _ *ticks.Plan, row *ticks.Entry) {
			if row.Count > 0 {
				row.Count++
			}
		})}},
		{"a tick is claimed twice", "(2)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if newTick(p) && v.Record.State == history.StateOK && v.Record.Manual == "" {
				p.Record.Tick = v.Record.Tick
			}
		}}},
		{"a tick is claimed beyond Watermark", "(2)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if newTick(p) {
				p.Record.Watermark = v.Record.Watermark
			}
		}}},
		{"Watermark passes the next tick, too", "(2) nothing is known", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if next := v.Schedule.Next(time.UnixMilli(p.Record.Watermark)); newTick(p) && !next.IsZero() {
				p.Record.Watermark = next.UnixMilli()
			}
		}}},
		{"reruns beyond max_attempts", "(6)", mutant{unjudged: true, view: func(v *ticks.View) { v.Policy.MaxAttempts = 100 }}},
		{"a rerun that does not count", "(5)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if p.Opens && v.Record.Open() {
				p.Record.Attempt = v.Record.Attempt
			}
		}}},
		{"an interruption that is not recorded", "(4)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if v.Record.Open() && p.Opens {
				p.Entries = nil
			}
		}}},
		{"the former schedule is forgotten", "(2) nothing is known", mutant{unjudged: true, view: func(v *ticks.View) { v.Former = nil }}},
		{"ticks from before the job", "(2)", mutant{unjudged: true, view: func(v *ticks.View) { v.Since = v.Since.Add(-time.Hour) }}},
		{"the former's time is not known", "(2)", mutant{unjudged: true, view: func(v *ticks.View) {
			v.Former = slices.Clone(v.Former)
			if n := len(v.Former); n > 0 {
				v.Former[n-1].Since = v.Former[n-1].Since.Add(-time.Hour)
			}
		}}},
		{"a result is not recorded", "(5)", mutant{end: func(p *ticks.Plan) { p.Entries = nil }}},
		{"a failure is recorded as a success", "(7)", mutant{end: func(p *ticks.Plan) {
			p.Entries = slices.Clone(p.Entries)
			p.Entries[0].State = history.StateOK
		}}},
		{"it never settles", "(8)", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if !p.Change {
				*p = ticks.Plan{Change: true, Record: v.Record}
			}
		}}},
		{"requests are never seen", "(10)", mutant{unjudged: true, view: func(v *ticks.View) { v.Requests = nil }}},
		{"requests wait for a tick that waits", "(10)", mutant{unjudged: true, view: func(v *ticks.View) {
			if v.Record.Manual == "" && v.Schedule.Next(time.UnixMilli(v.Record.Watermark)).Before(v.Now) && v.Active == "" && !v.Record.Open() {
				v.Requests = nil
			}
		}}},

		{"a run beside the current one", "(4)", mutant{unjudged: true, view: func(v *ticks.View) { v.Active = "" }}},
		{"misfire is once", "(6)", mutant{view: func(v *ticks.View) { v.Policy.Misfire = job.MisfireOnce }}},
		{"misfire is all", "(6)", mutant{view: func(v *ticks.View) { v.Policy.Misfire = job.MisfireAll }}},
		{"no grace", "(6)", mutant{view: func(v *ticks.View) { v.Policy.MisfireGrace = 0 }}},
		{"interrupted is rerun", "(6)", mutant{view: func(v *ticks.View) { v.Policy.Interrupted = job.InterruptedRerun }}},
		{"overlap is skip", "(6)", mutant{view: func(v *ticks.View) { v.Policy.Overlap = job.OverlapSkip }}},
		{"overlap is queue", "(6)", mutant{view: func(v *ticks.View) { v.Policy.Overlap = job.OverlapQueue }}},
		{"pauses are not known", "(6)", mutant{view: func(v *ticks.View) { v.Paused = nil }}},
		{"what a pause missed is run", "(6)", mutant{view: func(v *ticks.View) {
			if v.Paused != nil {
				v.Paused.Missed = job.MisfireAll
			}
		}}},
		{"owned for ever", "(6)", mutant{view: func(v *ticks.View) { v.OwnedSince = time.UnixMilli(0) }}},
		{"a clock that is a second fast", "(6)", mutant{view: func(v *ticks.View) { v.Now = v.Now.Add(time.Second) }}},
		{"a request that is not there is removed", "(6)", mutant{plan: func(_ ticks.View, p *ticks.Plan) { p.Request = "none" }}},
		{"a wake in the past", "(9)", mutant{plan: func(v ticks.View, p *ticks.Plan) { p.Wake = v.Now }}},
		{"a retry too many", "(6)", mutant{job: func(j *ticks.Job) { j.Policy.Retries++ }}},
		{"retries without backoff", "(6)", mutant{job: func(j *ticks.Job) { j.Policy.Backoff = 1 }}},
		{"retries past the next tick", "(6)", mutant{job: func(j *ticks.Job) { j.Since = j.Since.AddDate(50, 0, 0) }}},
		{"runs in between are forgotten", "(6)", mutant{plan: func(_ ticks.View, p *ticks.Plan) { p.Record.BusySince = 0 }}},
		{"every earlier run counts as busy", "(6)", mutant{plan: func(v ticks.View, p *ticks.Plan) {
			if p.Opens && v.Record.SID == v.SID {
				p.Record.BusySince = v.Record.Started
			}
		}}},
		{"results are never final", "(6)", mutant{end: func(p *ticks.Plan) {
			if p.Record.State == history.StateInterrupted {
				p.Record.NextAttempt, p.Record.NextAttemptAt = history.NextRerun, p.Record.Ended
			}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simkit.Caught(t, 200, worlds(tt.mutant), tt.property)
		})
	}
}

// TestMutantsOfNotBegun is TestMutants for runs that were claimed and not begun.
func TestMutantsOfNotBegun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		property string
		mutant   mutant
	}{
		{"a run that was not begun is an attempt", "(5)", mutant{view: func(v *ticks.View) {
			if v.Record.NotBegun && v.Record.NextAttempt != "" {
				v.Record.Attempt++
			}
		}}},
		{"what was not begun is given up by policy", "(6)", mutant{end: func(p *ticks.Plan) {
			if p.Record.NotBegun {
				p.Record.NextAttempt, p.Record.NextAttemptAt = "", 0
			}
		}}},
		{"the history does not say that a run was not begun", "(7)", mutant{end: func(p *ticks.Plan) {
			p.Entries = slices.Clone(p.Entries)
			p.Entries[0].NotBegun = false
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simkit.Caught(t, 200, worlds(tt.mutant), tt.property)
		})
	}
}

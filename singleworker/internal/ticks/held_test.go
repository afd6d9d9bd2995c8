package ticks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TestHeld: in a pause a request was made while the run of 10:00 was to be repeated, and that waits
// beside the manual run.
func TestHeld(t *testing.T) {
	t.Parallel()
	const rerun, retry = history.NextRerun, history.NextRetry
	runs := manual(run(t, history.StateRunning, "10:00:10", other, "10:00:20", ""), "ask")
	done := manual(run(t, history.StateOK, "10:00:10", me, "10:00:20", "10:00:25"), "ask")
	paused, over := zkrec.Pause{Since: ms(t, "10:00:02")}, zkrec.Pause{Since: ms(t, "10:00:02"), Until: ms(t, "10:00:30")}
	grace := ticks.Policy{MisfireGrace: minute / 2}
	for _, tt := range []struct {
		name     string
		policy   ticks.Policy
		pause    zkrec.Pause
		last     zkrec.Run
		held     string
		requests string
		now      string
		want     string
	}{
		{"another request", ticks.Policy{}, paused, done, rerun, "more", "10:00:40", "run more#1; holds 10:00#1"},
		{"the pause lasts", ticks.Policy{}, paused, done, rerun, "", "10:00:40", ""},
		{"the owner of the manual run is dead", ticks.Policy{}, paused, runs, rerun, "ask", "10:00:40", "interrupted ask#1; run ask#2; holds 10:00#1"},
		{"it is dead, and the request is gone", ticks.Policy{}, paused, runs, rerun, "", "10:00:40", "lost ask#1; holds 10:00#1"},
		{"the pause ends: a rerun", ticks.Policy{}, over, done, rerun, "more", "10:05", "run 10:00#2"},
		{"the pause ends: a retry", ticks.Policy{}, over, done, retry, "more", "10:00:40", "run 10:00#2"},
		{"the pause ends: a tick takes the retry's place", ticks.Policy{}, over, done, retry, "more", "10:01", "run 10:01#1; through 10:01"},
		{"the pause ends: a tick that is not run does, too", ticks.Policy{Misfire: "skip"}, over, done, retry, "", "10:01:30", "missed(stalled) 10:01; through 10:01"},
		{"the pause ends while the manual run's owner is dead", ticks.Policy{}, over, runs, rerun, "ask", "10:00:40", "interrupted ask#1; run ask#2; holds 10:00#1"},
		{"the rerun is older than the grace by now", grace, over, done, rerun, "more", "10:00:40", "an empty change"},
		{"the policy is skip by now", ticks.Policy{Interrupted: "skip"}, over, done, rerun, "more", "10:00:40", "an empty change"},
		{"max_attempts is less by now", ticks.Policy{MaxAttempts: 1}, over, done, rerun, "more", "10:00:40", "an empty change"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, pause: tt.pause, last: tt.last, through: "10:00", now: tt.now}.view(t)
			v.Requests = requests(tt.requests)
			v.Record.Held = zkrec.Held{Run: run(t, history.StateInterrupted, "10:00", other, "10:00", "10:00:01"), NextAttempt: tt.held, NextAttemptAt: ms(t, "10:00:05")}
			to := v.Job
			to.To = at(t, "10:00")
			if ticks.Settled(to, v.Record) {
				t.Error("the job would be resharded")
			}
			ran := zkrec.History{Entries: []ticks.Entry{{Run: v.Record.Held.Run}}}
			if got := ticks.Completed([]ticks.Shard{{v.Record, ran}}, 0); len(got) > 0 {
				t.Errorf("complete: %v", got)
			}
			plan := wantPlan(t, v, tt.want)
			if kept := plan.Record.Held; kept.NextAttempt != "" && kept != v.Record.Held {
				t.Errorf("it holds %+v", kept)
			}
		})
	}
}

// TestHeldIsUnclaimed: a tick that a pause has held back is due when it is over, and a deputy looks
// for it.
func TestHeldIsUnclaimed(t *testing.T) {
	t.Parallel()
	failed := run(t, history.StateFailed, "10:00", other, "10:00", "10:00:01")
	r := ticks.Record{Watermark: ms(t, "10:00"), Run: manual(run(t, history.StateOK, "10:00:10", me, "10:00:20", "10:00:25"), "ask")}
	r.Held = zkrec.Held{Run: failed, NextAttempt: history.NextRetry, NextAttemptAt: ms(t, "10:00:35")}
	for _, tt := range []struct{ now, since, next string }{
		{"10:00:30", "", "10:00:35"},
		{"10:00:36", "10:00:35", "10:01"},
	} {
		v := situation{now: tt.now}.view(t)
		wantUnclaimed(t, v.Job, r, v.Now, tt.since, tt.next)
	}
}

// TestAlwaysThatIsTimedNow: a run began when the job always ran, and its owner died. It is not
// repeated under the schedule that the job has now, by no clock.
func TestAlwaysThatIsTimedNow(t *testing.T) {
	t.Parallel()
	open := run(t, history.StateRunning, "09:59:30", other, "09:59:30", "")
	open.Always = true
	for _, since := range []string{"09:59", "10:00"} {
		v := situation{last: open, through: "09:59:30", now: "10:00:20"}.view(t)
		v.Since, v.Former = at(t, since), []ticks.Former{{Schedule: schedule(t, "@always"), Since: at(t, "09:00")}}
		plan := wantPlan(t, v, "interrupted 09:59:30#1")
		v.Record, v.Now = plan.Record, at(t, "10:00:59")
		if since == "10:00" {
			wantPlan(t, v, "")
		}
		v.Now = at(t, "10:01")
		v.Since = at(t, "10:00")
		wantPlan(t, v, "run 10:01#1; through 10:01")
	}
}

// TestMutantsOfHeld is TestMutants for ticks that a pause holds back.
func TestMutantsOfHeld(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutant mutant
	}{
		{"a manual run drops what a pause holds", mutant{unjudged: true, plan: func(_ ticks.View, p *ticks.Plan) {
			p.Record.Held = zkrec.Held{}
		}}},
		{"what a pause holds is not repeated", mutant{unjudged: true, plan: func(v ticks.View, p *ticks.Plan) {
			if p.Opens && v.Record.Held.NextAttempt == history.NextRerun && p.Record.Manual == "" {
				*p = ticks.Plan{Change: true, Record: v.Record}
				p.Record.Held = zkrec.Held{}
			}
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simkit.Caught(t, 200, worlds(tt.mutant), "(11)")
		})
	}
}

// A run begins without the fields that a newer version has written for the run before. Those go
// into the history with their run, and the slot's own fields stay.
func TestUnknownFieldsGoWithTheirRun(t *testing.T) {
	t.Parallel()
	v := situation{last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00:30"}.view(t)
	newer := strings.Replace(string(v.Record.Encode()), "{", `{"mood":"bad","slot_load":3,`, 1)
	var err error
	if v.Record, err = zkrec.ParseTick([]byte(newer), time.Time{}); err != nil {
		t.Fatal(err)
	}
	has := func(what string, data []byte, mood bool) {
		t.Helper()
		if strings.Contains(string(data), `"mood":"bad"`) != mood || !strings.Contains(string(data), `"slot_load":3`) {
			t.Errorf("%s: %s", what, data)
		}
	}
	ended := ticks.End(v.Job, v.Record, ticks.Outcome{State: history.StateOK, Ended: at(t, "10:00:20")})
	has("the result", ended.Record.Encode(), true)
	if page := string((zkrec.Log{}).Add(zkrec.MinHistory, 0, ended.Entries...).Encode(0)); !strings.Contains(page, `"mood":"bad"`) || strings.Contains(page, "slot_load") {
		t.Errorf("the history: %s", page)
	}
	lost := ticks.Next(v) // its owner is dead
	if !lost.Opens {
		t.Fatalf("%+v, want that it begins again", lost)
	}
	has("the rerun", lost.Record.Encode(), false)
	v.Record, v.Now = ended.Record, at(t, "10:01")
	next := ticks.Next(v)
	if !next.Opens {
		t.Fatalf("%+v, want the next tick", next)
	}
	has("the next run", next.Record.Encode(), false)
}

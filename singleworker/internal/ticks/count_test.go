package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestMaxRuns: the claims of ticks count, each tick once, and manual runs do not. When as many are
// claimed as may be, no tick is due, missed or overdue. A run that is to be repeated still is.
func TestMaxRuns(t *testing.T) {
	t.Parallel()
	const most = 3
	view := func(n int, last zkrec.Run, now string) ticks.View {
		v := situation{policy: ticks.Policy{MaxRuns: most, Misfire: job.MisfireAll, Retries: 5}, last: last, through: "10:00", now: now}.view(t)
		v.Record.Runs, v.Record.RunsSince = n, v.Since.UnixMilli()
		return v
	}
	ok := run(t, history.StateOK, "10:00", me, "10:00", "10:00")
	for what, tt := range map[string]struct {
		view ticks.View
		want string
		runs int
	}{
		"the last one":         {view(most-1, ok, "10:05"), "run 10:01#1; through 10:01", most},
		"one before it":        {view(most-2, ok, "10:05"), "run 10:01#1; through 10:01", most - 1},
		"none is left":         {view(most, ok, "15:00"), "", most},
		"more than may be":     {view(most+1, ok, "15:00"), "", most + 1},
		"of an older schedule": {func() ticks.View { v := view(most, ok, "10:01"); v.Record.RunsSince--; return v }(), "run 10:01#1; through 10:01", 1},
	} {
		plan := wantPlan(t, tt.view, tt.want)
		if plan.Change && plan.Record.Runs != tt.runs {
			t.Errorf("%s: %d runs are counted, want %d", what, plan.Record.Runs, tt.runs)
		}
	}
	manual := view(most, ok, "10:05")
	manual.Requests = []ticks.Request{{ID: "m", Request: zkrec.Request{Kind: zkrec.RequestRun, At: manual.Now}}}
	if plan := ticks.Next(manual); !plan.Opens || plan.Record.Manual != "m" || plan.Record.Runs != most {
		t.Errorf("a manual run after the last one: %+v", plan)
	}
	died := view(most, run(t, history.StateRunning, "10:00", other, "10:00", ""), "10:05")
	if plan := ticks.Next(died); !plan.Opens || plan.Record.Attempt != 2 || plan.Record.Runs != most {
		t.Errorf("the last run was interrupted: %+v", plan)
	}
	failed := view(most, run(t, history.StateRunning, "10:00", me, "10:00", ""), "10:05")
	if plan := ticks.End(failed.Job, failed.Record, ticks.Outcome{State: history.StateFailed, Ended: at(t, "10:30")}); plan.Record.NextAttempt != history.NextRetry || plan.Record.Runs != most {
		t.Errorf("the last run failed, long after what would be the next tick: %+v", plan.Record)
	}
	spent := view(most, ok, "15:00")
	if tick, _ := ticks.Overdue(spent.Job, spent.Record, false, spent.Now); !tick.IsZero() {
		t.Errorf("%v is overdue, and no tick is left", tick)
	}
	if due := ticks.Unclaimed(spent.Job, spent.Record, nil, spent.Now); !due.IsZero() {
		t.Errorf("%v is to be claimed, and no tick is left", due)
	}
	if next := ticks.NextDue(spent.Job, spent.Record, spent.Now); !next.IsZero() {
		t.Errorf("%v is next, and no tick is left", next)
	}
	if !ticks.Settled(spent.Job, spent.Record) || ticks.Settled(spent.Job, view(most-1, ok, "15:00").Record) {
		t.Error("settled with ticks left, or not without")
	}
}

// A schedule that is replaced when its runs were all claimed has missed nothing, and its successor
// begins to count. One that had some left has missed its ticks.
func TestMaxRunsOfAFormerSchedule(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		3: "run 10:05#1; through 10:05",
		2: "missed(schedule_changed) 10:01 to 10:04, 4; through 10:04:30",
	} {
		v := situation{policy: ticks.Policy{MaxRuns: 2}, through: "10:00", now: "10:05"}.view(t)
		v.Former = []ticks.Former{{Schedule: v.Schedule, MaxRuns: 3, Since: v.Since}}
		v.Record.Runs, v.Record.RunsSince = n, v.Since.UnixMilli()
		v.Since = at(t, "10:04:30")
		if plan := wantPlan(t, v, want); plan.Opens && plan.Record.Runs != 1 {
			t.Errorf("the first run of the new schedule is number %d", plan.Record.Runs)
		}
	}
}

// A run that is repeated under the next schedule leaves the count of the former one alone, of which
// ticks are still to be recorded: else all of them were missed.
func TestMaxRunsOfAFormerScheduleSurviveARepeatedRun(t *testing.T) {
	t.Parallel()
	v := situation{last: run(t, history.StateRunning, "10:00", other, "10:00", ""), through: "10:00", now: "10:05"}.view(t)
	v.Former = []ticks.Former{{Schedule: v.Schedule, MaxRuns: 1, Since: v.Since}}
	v.Record.Runs, v.Record.RunsSince = 1, v.Since.UnixMilli()
	v.Since = at(t, "10:04:30")
	plan := ticks.Next(v)
	if !plan.Opens || plan.Record.Attempt != 2 || plan.Record.Runs != 1 {
		t.Fatalf("%+v, want a second attempt, and the former schedule's count", plan)
	}
	v.Record, v.Active = plan.Record, plan.Record.RunID
	for _, row := range ticks.Next(v).Entries {
		if row.Reason == history.ReasonScheduleChanged {
			t.Errorf("row %+v: the former schedule had no tick left", row)
		}
	}
}

// Times outside of a window are no ticks: none of them is a row. One in it that was missed is,
// also after the end, and runs by the policy.
func TestWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		misfire      job.MisfirePolicy
		through, now string
		want         string
	}{
		{job.MisfireOnce, "10:00", "10:02:59", ""},
		{job.MisfireOnce, "10:00", "10:03", "run 10:03#1; through 10:03"},
		{job.MisfireOnce, "10:00", "12:00", "missed(stalled) 10:03 to 10:05, 3; run 10:06#1; through 10:06"},
		{job.MisfireSkip, "10:00", "12:00", "missed(stalled) 10:03 to 10:06, 4; through 10:06"},
		{job.MisfireOnce, "10:06", "12:00", ""},
	} {
		v := situation{policy: ticks.Policy{Misfire: tt.misfire}, through: tt.through, now: tt.now}.view(t)
		v.Schedule = v.Schedule.Within(at(t, "10:02").Add(time.Second), at(t, "10:06"))
		wantPlan(t, v, tt.want)
	}
}

package ticks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A job that always runs has its next run unclaimed when the pause after the last one is over.
func TestUnclaimedAlways(t *testing.T) {
	t.Parallel()
	after := func(ended, restart string) ticks.Record {
		last := run(t, history.StateFailed, "10:00", me, "10:00", ended)
		return ticks.Record{Watermark: ms(t, "10:00"), Run: last, RestartAt: ms(t, restart)}
	}
	for _, tt := range []struct {
		name             string
		record           ticks.Record
		now, since, next string
	}{
		{"it has never run", ticks.Record{}, "09:00:01", "09:00:00.001", "09:00:16"},
		{"a run is open", ticks.Record{Watermark: ms(t, "10:00"), Run: run(t, history.StateRunning, "10:00", me, "10:00", "")}, "10:00:30", "", "10:00:45"},
		{"in the pause", after("10:00:05", "10:01:05"), "10:01:04.999", "", "10:01:05"},
		{"after the pause", after("10:00:05", "10:01:05"), "10:01:05.200", "10:01:05", "10:01:20.200"},
		{"after a run that ended ahead of time", after("10:00:05", "10:01:05"), "10:00:04", "", "10:01:05"},
		{"after one that was moved, ahead of time", after("10:00:05", "10:00:05"), "10:00:04", "", "10:00:05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: "@always", now: tt.now}.view(t)
			wantUnclaimed(t, v.Job, tt.record, v.Now, tt.since, tt.next)
		})
	}
	v := situation{schedule: "* * * * * ?", now: "10:00:30"}.view(t)
	if got := ticks.Unclaimed(v.Job, after("10:00:05", "10:05"), nil, v.Now); got.IsZero() || got.After(v.Now.Add(-time.Second)) {
		t.Errorf("it always ran until lately, and ticks since 10:00 are unclaimed: %v", got)
	}
}

// A job ran at times, and a run was to be repeated when it became one that always runs: that is not
// repeated, also if the job is to be divided, which waits for it.
func TestAlwaysRepeatsNothing(t *testing.T) {
	t.Parallel()
	interrupted := run(t, history.StateInterrupted, "10:00", me, "10:00", "10:00:05")
	ask := []ticks.Request{{ID: "ask", Request: zkrec.Request{At: at(t, "10:00")}}}
	for _, tt := range []struct {
		name    string
		record  ticks.Record
		request string // that is removed
	}{
		{"a rerun", waiting(t, history.NextRerun, "10:00:05", interrupted), ""},
		{"a retry", waiting(t, history.NextRetry, "10:05", run(t, history.StateFailed, "10:00", me, "10:00", "10:00:05")), ""},
		{"a manual run's rerun", waiting(t, history.NextRerun, "10:00:05", manual(interrupted, "ask")), "ask"},
	} {
		for _, divided := range []bool{false, true} {
			v := situation{schedule: "@always", now: "10:01"}.view(t)
			v.Record, v.Requests = tt.record, ask
			if divided {
				v.To = at(t, "10:00")
			}
			plan := ticks.Next(v)
			if want := (ticks.Record{Watermark: tt.record.Watermark, Run: tt.record.Run}); !plan.Change || plan.Opens || plan.Record != want || plan.Request != tt.request {
				t.Errorf("%s, divided: %v: %+v, want %+v, and to remove %q", tt.name, divided, plan, want, tt.request)
			}
			v.Record, v.Requests = plan.Record, nil
			if plan = ticks.Next(v); plan.Opens == divided {
				t.Errorf("%s, divided: %v: then %+v", tt.name, divided, plan)
			}
		}
	}
}

// A job that ran at times becomes one that always runs, and its owner's clock is behind the last
// run: it waits until it can record the former ticks, of which it would else pass over some.
func TestAlwaysPassesOverNoFormerTick(t *testing.T) {
	t.Parallel()
	v := situation{schedule: "@always", through: "10:00", last: run(t, history.StateOK, "10:00", me, "10:00", "10:00:05"), now: "09:59"}.view(t)
	minutely := situation{now: "09:59"}.view(t)
	v.Former = []ticks.Former{{Schedule: minutely.Schedule, Since: v.Since}}
	v.Since = at(t, "10:03:30")
	if plan := ticks.Next(v); plan.Change || plan.Wake.Before(v.Since) {
		t.Errorf("%+v, want to wait until 10:03:30", plan)
	}
	v.Now = at(t, "10:03:31")
	wantPlan(t, v, "missed(schedule_changed) 10:01 to 10:03, 3; through 10:03:30")
}

// Runs were asked for, and the job became one that always runs before they began: they are
// withdrawn, one after the other, also in a pause, after the runs that are to be repeated.
func TestAlwaysWithdrawsRequests(t *testing.T) {
	t.Parallel()
	interrupted := run(t, history.StateInterrupted, "10:00", me, "10:00", "10:00:05")
	asks := []ticks.Request{{ID: "first", Request: zkrec.Request{At: at(t, "10:00")}}, {ID: "second", Request: zkrec.Request{At: at(t, "10:00:01")}}}
	for _, tt := range []struct {
		name   string
		record ticks.Record
		paused bool
		want   []string // requests that are removed, in turn
	}{
		{"nothing has run", ticks.Record{Watermark: ms(t, "10:00")}, false, []string{"first", "second"}},
		{"in a pause", ticks.Record{Watermark: ms(t, "10:00")}, true, []string{"first", "second"}},
		{"one is to be repeated", waiting(t, history.NextRerun, "10:00:05", manual(interrupted, "first")), false, []string{"first", "second"}},
		{"one is to be repeated, in a pause", waiting(t, history.NextRerun, "10:00:05", manual(interrupted, "first")), true, []string{"second"}},
	} {
		v := situation{schedule: "@always", now: "10:01"}.view(t)
		v.Record, v.Requests = tt.record, asks
		if tt.paused {
			v.Paused = &zkrec.Pause{Since: ms(t, "10:00")}
		}
		for _, want := range tt.want {
			plan := ticks.Next(v)
			if !plan.Change || plan.Opens || len(plan.Entries) > 0 || plan.Request != want {
				t.Fatalf("%s: %+v, want to remove %q", tt.name, plan, want)
			}
			v.Record = plan.Record
			v.Requests = slices.DeleteFunc(slices.Clone(v.Requests), func(r ticks.Request) bool { return r.ID == want })
		}
		if plan := ticks.Next(v); plan.Opens == tt.paused {
			t.Errorf("%s: then %+v", tt.name, plan)
		}
	}
}

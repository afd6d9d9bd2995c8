package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// pastTick is a request for a further attempt at the tick of 09:50, which failed.
func pastTick(t *testing.T, id string) ticks.Request {
	t.Helper()
	return ticks.Request{ID: id, Request: zkrec.Request{
		Kind: zkrec.RequestPast, At: time.Date(2026, 3, 3, 10, 0, 10, 0, time.UTC), By: "ann", Tick: ms(t, "09:50"), Past: history.PastFailed,
		Attempt: 3, Failures: 2,
	}}
}

// TestPastTick: a past tick is opened for the request that names it, as the attempt that it says,
// when no other tick is to be run. The watermark stays.
func TestPastTick(t *testing.T) {
	t.Parallel()
	ended := run(t, history.StateOK, "10:00", me, "10:00", "10:01:05")
	queue := ticks.Policy{Overlap: job.OverlapQueue}
	for _, tt := range []struct {
		name string
		situation
		active string
		want   string
	}{
		{"nothing is due", situation{through: "10:00", now: "10:00:20"}, "", "run ask#3"},
		{"in a pause", situation{pause: zkrec.Pause{Since: ms(t, "10:00")}, through: "10:00", now: "10:05"}, "", "run ask#3"},
		{"a run is in progress", situation{last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00:20"}, "r1", ""},
		{"a tick is due", situation{through: "10:00", now: "10:01"}, "", "run 10:01#1; through 10:01"},
		{"a tick was queued", situation{policy: queue, last: ended, through: "10:00", now: "10:01:05"}, "", "run 10:01#1; through 10:01"},
		{"it is not past", situation{pause: zkrec.Pause{Since: ms(t, "09:49:30")}, through: "09:49", now: "09:50:30"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Active, v.Requests = tt.active, []ticks.Request{pastTick(t, "ask")}
			plan := wantPlan(t, v, tt.want)
			r := plan.Record
			if named := r.Manual != ""; named && (r.Tick != ms(t, "09:50") || r.Watermark != v.Record.Watermark || r.Failures != 2 || r.Past() != history.PastFailed) {
				t.Errorf("the record says %+v, asked %+v", r, r.Asked.Value())
			}
		})
	}
}

// A past tick that waits does not hold back a manual run that was asked for after it.
func TestPastTickThatIsNotPastYet(t *testing.T) {
	t.Parallel()
	v := situation{pause: zkrec.Pause{Since: ms(t, "09:49:30")}, through: "09:49", now: "09:50:30"}.view(t)
	v.Requests = append([]ticks.Request{pastTick(t, "past")}, requests("ask")...)
	wantPlan(t, v, "run ask#1")
}

// TestInterruptedPastTick: it is run again as any manual run is, however old it is, and it remains
// who asked for it and why. It is not retried.
func TestInterruptedPastTick(t *testing.T) {
	t.Parallel()
	grace := ticks.Policy{MisfireGrace: time.Second, MaxAttempts: 3, Retries: 5}
	open := attempt(manual(run(t, history.StateRunning, "09:50", other, "10:00:10", ""), "ask"), 3, 2)
	open.AskedFor(history.Asked{AskedBy: "ann", Past: history.PastFailed})
	v := situation{policy: grace, last: open, through: "10:00", now: "10:00:40"}.view(t)
	v.Requests = []ticks.Request{pastTick(t, "ask")}
	plan := wantPlan(t, v, "interrupted ask#3; run ask#4")
	if asked := plan.Record.Asked.Value(); asked.AskedBy != "ann" || asked.Past != history.PastFailed || plan.Record.Tick != open.Tick {
		t.Errorf("the record says %+v, asked %+v", plan.Record, asked)
	}
	v.Requests = nil
	wantPlan(t, v, "lost ask#3")
	of := ticks.Job{Schedule: v.Schedule, Policy: v.Policy}
	failed := ticks.End(of, ticks.Record{Watermark: ms(t, "10:00"), Run: open}, ticks.Outcome{State: history.StateFailed, Ended: v.Now})
	if failed.Record.NextAttempt != "" || failed.Request != "ask" {
		t.Errorf("it failed: %+v", failed)
	}
}

// A past tick is late from when somebody asked for it, and not from when it was due: its owner is
// not relieved before it had the time to claim it.
func TestUnclaimedPastTick(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:00:20"}.view(t)
	request := pastTick(t, "ask")
	if since := ticks.Unclaimed(v.Job, v.Record, []ticks.Request{request}, v.Now); !since.Equal(request.At) {
		t.Errorf("unclaimed since %v, want %v", since, request.At)
	}
	v.Record.Run = attempt(manual(run(t, history.StateInterrupted, "09:50", me, "10:00:10", "10:00:15"), "ask"), 3, 2)
	v.Record.AskedFor(history.Asked{Past: history.PastFailed})
	v.Record.NextAttempt, v.Record.NextAttemptAt = history.NextRerun, ms(t, "10:00:15")
	if since := ticks.Unclaimed(v.Job, v.Record, []ticks.Request{request}, v.Now); since.UnixMilli() != ms(t, "10:00:15") {
		t.Errorf("its rerun is unclaimed since %v", since)
	}
}

// TestAsksOfPastTicks: a resolver is asked about attempts that were interrupted, however many, and
// not about effects that are to be made once more.
func TestAsksOfPastTicks(t *testing.T) {
	t.Parallel()
	policy := ticks.Policy{Interrupted: job.InterruptedAskOrSkip, MaxAttempts: 2, MisfireGrace: time.Minute}
	for _, tt := range []struct {
		past              history.Past
		attempt, failures int
		asks, absent      bool
	}{
		{"", 4, 0, true, false}, {history.PastFailed, 4, 0, true, true}, {history.PastFailed, 4, 3, false, true},
		{history.PastAgain, 4, 3, false, true}, {history.PastAgain, 5, 3, true, true}, {history.PastMissed, 1, 0, false, true},
	} {
		r := attempt(run(t, history.StateRunning, "09:50", me, "10:30", ""), tt.attempt, tt.failures)
		r.AskedFor(history.Asked{Past: tt.past})
		if asks, absent, _ := r.Asks(policy); asks != tt.asks || absent != tt.absent {
			t.Errorf("%q, attempt %d after %d failures: %v, %v", tt.past, tt.attempt, tt.failures, asks, absent)
		}
	}
}

// backfill asks for the ticks of 09:50, 09:51 and 09:52.
func backfill(t *testing.T, id string) ticks.Request {
	t.Helper()
	all := zkrec.Request{Kind: zkrec.RequestBackfill, By: "ann"}
	for _, at := range []string{"09:50", "09:51", "09:52"} {
		all.Backfill.Add(zkrec.Request{Tick: ms(t, at), Past: history.PastSkipped, Attempt: 1})
	}
	return ticks.Request{ID: id, Version: 7, Request: all}
}

// TestBackfill: its next tick is opened when nothing else is to be run and no pause is in effect.
// The plan says from which request it is to be taken.
func TestBackfill(t *testing.T) {
	t.Parallel()
	queue := ticks.Policy{Overlap: job.OverlapQueue}
	ended := run(t, history.StateOK, "10:00", me, "10:00", "10:01:05")
	for _, tt := range []struct {
		name string
		situation
		others []ticks.Request
		want   string
		from   string
	}{
		{"nothing is due", situation{through: "10:00", now: "10:00:20"}, nil, "run many.00001#1", "many"},
		{"a run was asked for later", situation{through: "10:00", now: "10:00:20"}, requests("z"), "run z#1", ""},
		{"a past tick was asked for later", situation{through: "10:00", now: "10:00:20"}, []ticks.Request{pastTick(t, "z")}, "run z#3", ""},
		{"a second one waits", situation{through: "10:00", now: "10:00:20"}, []ticks.Request{backfill(t, "z")}, "run many.00001#1", "many"},
		{"in a pause", situation{pause: zkrec.Pause{Since: ms(t, "10:00")}, through: "10:00", now: "10:05"}, nil, "", ""},
		{"a run in a pause", situation{pause: zkrec.Pause{Since: ms(t, "10:00")}, through: "10:00", now: "10:05"}, requests("z"), "run z#1", ""},
		{"a tick is due", situation{through: "10:00", now: "10:01"}, nil, "run 10:01#1; through 10:01", ""},
		{"a tick was queued", situation{policy: queue, last: ended, through: "10:00", now: "10:01:05"}, nil, "run 10:01#1; through 10:01", ""},
		{"it is not past", situation{through: "09:49", now: "09:49:50"}, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Requests = append([]ticks.Request{backfill(t, "many")}, tt.others...)
			plan := wantPlan(t, v, tt.want)
			switch {
			case plan.Backfill == nil && tt.from != "", plan.Backfill != nil && (plan.Backfill.ID != tt.from || plan.Backfill.Version != 7):
				t.Errorf("taken from %+v, want %q", plan.Backfill, tt.from)
			case tt.from != "" && (plan.Record.Tick != ms(t, "09:50") || plan.Record.Past() != history.PastSkipped):
				t.Errorf("opens %+v", plan.Record)
			}
		})
	}
}

// TestPastTicksOfFormerShards: requests for ticks of the time before the slot's layout are dropped,
// unless their run is to be repeated.
func TestPastTicksOfFormerShards(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:00:20"}.view(t)
	v.Requests = append(requests("run"), backfill(t, "many"))
	for _, tt := range []struct {
		began string
		want  string
	}{
		{"09:49:30", "run run#1"}, {"09:50", "remove many"}, {"09:55", "remove many"},
	} {
		v.From = time.UnixMilli(ms(t, tt.began))
		plan := ticks.Next(v)
		if dropped := plan.Change && plan.Request == "many" && !plan.Opens; dropped != (tt.want == "remove many") {
			t.Errorf("new shards at %s: %+v, want %s", tt.began, plan, tt.want)
		}
	}
	open := manual(run(t, history.StateRunning, "09:50", other, "10:00:10", ""), "ask")
	v.Record.Run, v.Requests = open, []ticks.Request{pastTick(t, "ask")}
	if plan := ticks.Next(v); plan.Request == "ask" || !plan.Opens {
		t.Errorf("a run that was interrupted: %+v", plan)
	}
	v.Record.State, v.Record.Ended, v.Record.NextAttempt, v.Record.NextAttemptAt = history.StateInterrupted, ms(t, "10:00:15"), history.NextRerun, ms(t, "10:00:15")
	if plan := ticks.Next(v); plan.Request == "ask" || !plan.Opens {
		t.Errorf("a run that is to be repeated: %+v", plan)
	}
}

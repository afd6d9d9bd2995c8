package ticks_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// attempt returns r as the nth attempt, after so many failures.
func attempt(r zkrec.Run, n, failures int) zkrec.Run {
	r.Attempt, r.Failures = n, failures
	return r
}

func manual(r zkrec.Run, id string) zkrec.Run {
	r.Manual = id
	return r
}

// TestAbandoned: the record has an open run that is not in progress here.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	open := run(t, history.StateRunning, "10:00", other, "10:00", "")
	skip, ask := ticks.Policy{Interrupted: job.InterruptedSkip}, ticks.Policy{Interrupted: job.InterruptedAsk}
	paused := zkrec.Pause{Since: ms(t, "10:00:30")}
	for _, tt := range []struct {
		name     string
		policy   ticks.Policy
		pause    zkrec.Pause
		last     zkrec.Run
		requests string
		now      string
		want     string
	}{
		{"rerun", ticks.Policy{}, zkrec.Pause{}, open, "", "10:00:40", "interrupted 10:00#1; run 10:00#2"},
		{"rerun: before the ticks since", ticks.Policy{}, zkrec.Pause{}, open, "", "10:05", "interrupted 10:00#1; run 10:00#2"},
		{"rerun: up to max_attempts", ticks.Policy{}, zkrec.Pause{}, attempt(open, 2, 0), "", "10:01", "interrupted 10:00#2; run 10:00#3"},
		{"rerun: no more than that", ticks.Policy{}, zkrec.Pause{}, attempt(open, 3, 0), "", "10:01", "lost 10:00#3"},
		{"rerun: failures do not count", ticks.Policy{}, zkrec.Pause{}, attempt(open, 5, 3), "", "10:01", "interrupted 10:00#5; run 10:00#6"},
		{"rerun: max_attempts of one", ticks.Policy{MaxAttempts: 1}, zkrec.Pause{}, open, "", "10:01", "lost 10:00#1"},
		{"rerun: as old as the grace", ticks.Policy{MisfireGrace: minute}, zkrec.Pause{}, open, "", "10:01", "interrupted 10:00#1; run 10:00#2"},
		{"rerun: older than the grace", ticks.Policy{MisfireGrace: minute}, zkrec.Pause{}, open, "", "10:01:00.001", "lost 10:00#1"},
		{"rerun: it gives its places back first", ticks.Policy{Limits: map[string]int{"api": 1}}, zkrec.Pause{}, open, "", "10:00:40", `interrupted 10:00#1; again "rerun" at 10:00:40`},
		{"skip", skip, zkrec.Pause{}, open, "", "10:00:40", "lost 10:00#1"},
		{"ask", ask, zkrec.Pause{}, open, "", "10:00:40", "interrupted 10:00#1; run 10:00#2"},
		{"ask: once more than max_attempts", ask, zkrec.Pause{}, attempt(open, 3, 0), "", "10:01", "interrupted 10:00#3; run 10:00#4"},
		{"ask: no more than that", ask, zkrec.Pause{}, attempt(open, 4, 0), "", "10:01", "lost 10:00#4"},
		{"ask: older than the grace", ticks.Policy{Interrupted: job.InterruptedAskOrSkip, MisfireGrace: minute}, zkrec.Pause{}, open, "", "10:02", "interrupted 10:00#1; run 10:00#2"},
		{"ask: it waits for the end of a pause", ask, paused, open, "", "10:00:40", `interrupted 10:00#1; again "rerun" at 10:00:40`},
		{"ask: canceled", ask, zkrec.Pause{}, manual(open, "ask"), "", "10:00:40", "lost ask#1"},

		{"paused: the rerun waits", ticks.Policy{}, paused, open, "", "10:00:40", `interrupted 10:00#1; again "rerun" at 10:00:40`},
		{"paused, skip", skip, paused, open, "", "10:00:40", "lost 10:00#1"},

		{"manual: rerun", ticks.Policy{}, zkrec.Pause{}, manual(open, "ask"), "ask", "10:00:40", "interrupted ask#1; run ask#2"},
		{"manual: rerun in a pause", ticks.Policy{}, paused, manual(open, "ask"), "ask", "10:00:40", "interrupted ask#1; run ask#2"},
		{"manual: others do not count", ticks.Policy{}, zkrec.Pause{}, manual(open, "ask"), "more", "10:00:40", "lost ask#1"},
		{"manual: canceled", ticks.Policy{}, zkrec.Pause{}, manual(open, "ask"), "", "10:00:40", "lost ask#1"},
		{"manual: skip", skip, zkrec.Pause{}, manual(open, "ask"), "ask", "10:00:40", "lost ask#1; done ask"},
		{"manual: no more than max_attempts", ticks.Policy{}, zkrec.Pause{}, manual(attempt(open, 3, 0), "ask"), "ask", "10:00:40", "lost ask#3; done ask"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, pause: tt.pause, last: tt.last, through: "10:00", now: tt.now}.view(t)
			v.Requests = requests(tt.requests)
			plan := wantPlan(t, v, tt.want)
			entry := plan.Entries[0]
			if entry.SID != other || entry.Token != tokens[other] || entry.RunID != "r1" || entry.Ended != v.Now.UnixMilli() || entry.Error == "" {
				t.Errorf("the entry says %+v", entry)
			}
			if r := plan.Record; plan.Opens && (r.SID != me || r.Token != tokens[me] || r.RunID != "new" || r.Started != v.Now.UnixMilli() || r.Ended != 0 || r.Error != "") {
				t.Errorf("the record says %+v", r)
			}
		})
	}
}

// requests parses ids into requests made at 10:00:10.
func requests(ids string) (all []ticks.Request) {
	for id := range strings.FieldsSeq(ids) {
		all = append(all, ticks.Request{ID: id, Request: zkrec.Request{
			Kind: zkrec.RequestRun, At: time.Date(2026, 3, 3, 10, 0, 10, 0, time.UTC),
		}})
	}
	return all
}

// TestAgain: the last run, of 10:00, is to be repeated.
func TestAgain(t *testing.T) {
	t.Parallel()
	failed := run(t, history.StateFailed, "10:00", other, "10:00", "10:00:05")
	long := run(t, history.StateFailed, "10:00", me, "10:00", "10:02:05") // under a schedule without those ticks
	interrupted := run(t, history.StateInterrupted, "10:00", other, "10:00", "10:00:05")
	paused := zkrec.Pause{Since: ms(t, "10:00:02"), Until: ms(t, "10:00:40")}
	grace := ticks.Policy{MisfireGrace: minute / 2}
	for _, tt := range []struct {
		name     string
		policy   ticks.Policy
		pause    zkrec.Pause
		last     zkrec.Run
		againAt  string
		requests string
		now      string
		want     string
	}{
		{"retry: it waits", ticks.Policy{}, zkrec.Pause{}, failed, "10:00:15", "", "10:00:10", "wake 10:00:15"},
		{"retry: requests wait for it", ticks.Policy{}, zkrec.Pause{}, failed, "10:00:15", "ask", "10:00:10", "wake 10:00:15"},
		{"retry", ticks.Policy{}, zkrec.Pause{}, failed, "10:00:15", "", "10:00:15", `run 10:00#2; again "" at 00:00`},
		{"retry: the next tick takes its place", ticks.Policy{}, zkrec.Pause{}, failed, "10:00:15", "", "10:01", `run 10:01#1; through 10:01; again "" at 00:00`},
		{"retry: also if it is not run", ticks.Policy{Misfire: "skip"}, zkrec.Pause{}, failed, "10:00:15", "", "10:01:30", `missed(stalled) 10:01; through 10:01; again "" at 00:00`},
		{"retry: a clock that was set back does not make it wait longer", ticks.Policy{}, zkrec.Pause{}, failed, "10:00:15", "", "09:50", `run 10:00#2; again "" at 00:00`},
		{"retry: paused", ticks.Policy{}, paused, failed, "10:00:15", "", "10:00:20", "wake 10:00:40"},
		{"retry: a pause is over", ticks.Policy{}, paused, failed, "10:00:15", "", "10:00:40", `run 10:00#2; again "" at 00:00`},
		{"retry: paused, a request goes before it", ticks.Policy{}, paused, failed, "10:00:15", "ask", "10:00:20", `run ask#1; again "" at 00:00; holds 10:00#1; wake 10:00:40`},

		{"retry: a tick that was queued takes its place, and goes before a request", ticks.Policy{Overlap: job.OverlapQueue}, zkrec.Pause{}, long, "10:02:06", "ask", "10:02:10", `skipped(overlap) 10:01; run 10:02#1; through 10:02; again "" at 00:00`},

		{"rerun", ticks.Policy{}, zkrec.Pause{}, interrupted, "10:00:05", "", "10:00:05", `run 10:00#2; again "" at 00:00`},
		{"rerun: before the ticks since", ticks.Policy{}, zkrec.Pause{}, interrupted, "10:00:05", "ask", "10:05", `run 10:00#2; again "" at 00:00`},
		{"rerun: a clock that was set back does not make it wait", ticks.Policy{}, zkrec.Pause{}, interrupted, "10:00:05", "", "09:50", `run 10:00#2; again "" at 00:00`},
		{"rerun: paused", ticks.Policy{}, paused, interrupted, "10:00:05", "", "10:00:20", "wake 10:00:40"},
		{"rerun: paused, a request goes before it", ticks.Policy{}, paused, interrupted, "10:00:05", "ask", "10:00:20", `run ask#1; again "" at 00:00; holds 10:00#1; wake 10:00:40`},
		{"rerun: older than the grace by now", grace, paused, interrupted, "10:00:05", "", "10:00:41", `again "" at 00:00`},
		{"rerun: the policy is skip by now", ticks.Policy{Interrupted: "skip"}, zkrec.Pause{}, interrupted, "10:00:05", "", "10:00:20", `again "" at 00:00`},
		{"rerun: max_attempts is less by now", ticks.Policy{MaxAttempts: 1}, zkrec.Pause{}, interrupted, "10:00:05", "", "10:00:20", `again "" at 00:00`},
		{"rerun: of a request", ticks.Policy{}, paused, manual(interrupted, "ask"), "10:00:05", "ask", "10:00:20", `run ask#2; again "" at 00:00`},
		{"rerun: of a request that is canceled", ticks.Policy{}, paused, manual(interrupted, "ask"), "10:00:05", "", "10:00:20", `again "" at 00:00`},
		{"rerun: of a request, older than the grace by now", grace, paused, manual(interrupted, "ask"), "10:00:05", "ask", "10:00:41", `again "" at 00:00; done ask`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, pause: tt.pause, last: tt.last, through: "10:00", now: tt.now}.view(t)
			v.Requests = requests(tt.requests)
			v.Record.NextAttempt, v.Record.NextAttemptAt = history.NextRetry, ms(t, tt.againAt)
			if tt.last.State == history.StateInterrupted {
				v.Record.NextAttempt = history.NextRerun
			}
			plan := wantPlan(t, v, tt.want)
			wantFailures := tt.last.Failures
			if tt.last.State == history.StateFailed {
				wantFailures++
			}
			if plan.Opens && plan.Record.Attempt > 1 && plan.Record.Failures != wantFailures {
				t.Errorf("the record has %d failures, want %d", plan.Record.Failures, wantFailures)
			}
		})
	}
}

// TestRequests: manual runs are opened in order when nothing else is to
// be done.
func TestRequests(t *testing.T) {
	t.Parallel()
	ended := run(t, history.StateOK, "10:00", me, "10:00", "10:01:05")
	queue, all := ticks.Policy{Overlap: job.OverlapQueue}, ticks.Policy{Misfire: job.MisfireAll}
	for _, tt := range []struct {
		name string
		situation
		active string
		want   string
	}{
		{"nothing is due", situation{through: "10:00", now: "10:00:20"}, "", "run ask#1"},
		{"a run is in progress", situation{last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00:20"}, "r1", ""},
		{"a tick is due", situation{through: "10:00", now: "10:01"}, "", "run 10:01#1; through 10:01"},
		{"ticks are recorded first", situation{policy: ticks.Policy{Misfire: "skip"}, through: "10:00", now: "10:01:30"}, "", "missed(stalled) 10:01; through 10:01"},
		{"in a pause", situation{pause: zkrec.Pause{Since: ms(t, "10:00")}, through: "09:59", now: "10:05"}, "", "run ask#1"},
		{"a tick was queued during a tick's run", situation{policy: queue, last: ended, through: "10:00", now: "10:01:05"}, "", "run ask#1"},
		{"a tick was queued during a manual run", situation{policy: queue, last: manual(ended, "before"), through: "10:00", now: "10:01:05"}, "", "run 10:01#1; through 10:01"},
		{"more missed ticks are to be run", situation{policy: all, last: run(t, history.StateOK, "09:31", me, "10:00", "10:00:05"), through: "09:31", now: "10:00:05"}, "", "run ask#1"},
		{"a tick came after a tick's run", situation{last: run(t, history.StateOK, "10:00", me, "10:00", "10:00:05"), through: "10:00", now: "10:01"}, "", "run 10:01#1; through 10:01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Active, v.Requests = tt.active, requests("ask more")
			plan := wantPlan(t, v, tt.want)
			if r := plan.Record; r.Manual != "" && (r.Tick != ms(t, "10:00:10") || r.Watermark != v.Record.Watermark) {
				t.Errorf("the record says %+v", r)
			}
		})
	}
}

// TestBusySince: a run that is opened while ticks wait for the end of the last one, of 10:00, which
// began at 10:00, says so; its last owner is me.
func TestBusySince(t *testing.T) {
	t.Parallel()
	queue := ticks.Policy{Overlap: job.OverlapQueue}
	ended := run(t, history.StateInterrupted, "10:00", me, "10:00", "10:02:30")
	for _, tt := range []struct {
		name string
		situation
		again, requests string
		want            string
	}{
		{"a manual run", situation{policy: queue, last: ended, through: "10:00", now: "10:02:30"}, "", "ask", "10:00"},
		{"a manual run, and nothing waits", situation{policy: queue, last: ended, through: "10:02", now: "10:02:30"}, "", "ask", ""},
		{"a further attempt", situation{policy: queue, last: ended, through: "10:00", now: "10:02:30"}, history.NextRerun, "", "10:00"},
		{"one that waits for long", situation{policy: queue, last: ended, busy: "09:58", through: "10:00", now: "10:02:30"}, "", "ask", "09:58"},
		{"one that does not any more", situation{policy: queue, last: ended, busy: "09:58", through: "10:02", now: "10:02:30"}, "", "ask", ""},
		{"one that waits, and another came when nothing ran", situation{policy: queue, last: ended, through: "10:00", now: "10:03:30"}, history.NextRerun, "", ""},
		{"one that waits, and another has just come", situation{policy: queue, last: ended, through: "10:00", now: "10:03:01"}, history.NextRerun, "", "10:00"},
		{"one that waits behind a missed one, and another came when nothing ran", situation{policy: queue, last: ended, through: "09:58", now: "10:03:30"}, history.NextRerun, "", "10:00"},
		{"the tick that waited", situation{policy: queue, last: ended, through: "10:00", now: "10:02:30"}, "", "", ""},
		{"one that came after the last run", situation{policy: queue, last: run(t, history.StateInterrupted, "10:00", me, "10:00", "10:00:30"), through: "10:00", now: "10:01:30"}, history.NextRerun, "", ""},
		{"another owner's", situation{policy: queue, last: run(t, history.StateInterrupted, "10:00", other, "10:00", "10:02:30"), through: "10:00", now: "10:02:30"}, history.NextRerun, "", ""},
		{"nothing is queued", situation{last: ended, through: "10:00", now: "10:02:30"}, history.NextRerun, "", ""},
		{"nothing has come yet", situation{policy: queue, last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00:30"}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Record.NextAttempt, v.Requests = tt.again, requests(tt.requests)
			plan := ticks.Next(v)
			if !plan.Opens || plan.Record.BusySince != ms(t, tt.want) {
				t.Errorf("Next: %s, busy since %s; want %q", say(v.Record, plan), clock(plan.Record.BusySince), tt.want)
			}
		})
	}
}

// TestEnd: the run of 10:00 ends at 10:00:05.
func TestEnd(t *testing.T) {
	t.Parallel()
	retries := func(n int, backoff time.Duration) ticks.Policy {
		return ticks.Policy{Retries: n, Backoff: backoff}
	}
	open := run(t, history.StateRunning, "10:00", me, "10:00", "")
	requested := manual(open, "ask")
	for _, tt := range []struct {
		name   string
		policy ticks.Policy
		run    zkrec.Run
		state  history.State
		final  bool
		want   string
	}{
		{"ok", retries(3, 0), open, history.StateOK, false, "ok 10:00#1"},
		{"ok, manual", ticks.Policy{}, requested, history.StateOK, false, "ok ask#1; done ask"},

		{"failed, no retries", ticks.Policy{}, open, history.StateFailed, false, "failed 10:00#1"},
		{"failed", retries(1, 0), open, history.StateFailed, false, `failed 10:00#1; again "retry" at 10:00:06`},
		{"timed out", retries(1, 0), open, history.StateTimedOut, false, `timed_out 10:00#1; again "retry" at 10:00:06`},
		{"failed, final", retries(1, 0), open, history.StateFailed, true, "failed 10:00#1"},
		{"failed a second time", retries(2, 0), attempt(open, 2, 1), history.StateFailed, false, `failed 10:00#2; again "retry" at 10:00:07`},
		{"failed a third time", retries(2, 0), attempt(open, 3, 2), history.StateFailed, false, "failed 10:00#3"},
		{"failed after interruptions", retries(1, 0), attempt(open, 3, 0), history.StateFailed, false, `failed 10:00#3; again "retry" at 10:00:06`},
		{"a retry just before the next tick", retries(1, 55*time.Second-time.Millisecond), open, history.StateFailed, false, `failed 10:00#1; again "retry" at 10:00:59.999`},
		{"a retry at the next tick", retries(1, 55*time.Second), open, history.StateFailed, false, "failed 10:00#1"},
		{"failed, manual", retries(1, 0), requested, history.StateFailed, false, "failed ask#1; done ask"},

		{"interrupted", ticks.Policy{}, open, history.StateInterrupted, false, `interrupted 10:00#1; again "rerun" at 10:00:05`},
		{"interrupted, final", ticks.Policy{}, open, history.StateInterrupted, true, "interrupted 10:00#1"},
		{"interrupted, skip", ticks.Policy{Interrupted: job.InterruptedSkip}, open, history.StateInterrupted, false, "interrupted 10:00#1"},
		{"interrupted, max_attempts", ticks.Policy{}, attempt(open, 3, 0), history.StateInterrupted, false, "interrupted 10:00#3"},
		{"interrupted, manual", ticks.Policy{}, requested, history.StateInterrupted, false, `interrupted ask#1; again "rerun" at 10:00:05`},
		{"interrupted, manual, final", ticks.Policy{}, requested, history.StateInterrupted, true, "interrupted ask#1; done ask"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, last: tt.run, through: "10:00", now: "10:00"}.view(t)
			before := v.Record
			long := strings.Repeat("x", 2*zkrec.MaxErrorBytes)
			plan := ticks.End(v.Job, v.Record, ticks.Outcome{State: tt.state, Error: long, Ended: at(t, "10:00:05"), Final: tt.final})
			if got := say(before, plan); got != tt.want {
				t.Errorf("End:\n got %s\nwant %s", got, tt.want)
			}
			if e := plan.Entries[0]; !reflect.DeepEqual(e.Run, plan.Record.Run) || e.Ended != ms(t, "10:00:05") || len(e.Error) != zkrec.MaxErrorBytes {
				t.Errorf("the entry says %+v", e)
			}
		})
	}
}

// TestNotBegun: a run that was claimed and not begun is made again as the same attempt, whatever
// the policy says, unless it is too old, canceled or stopped.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	open := run(t, history.StateRunning, "10:00", other, "10:00", "")
	never := ticks.Policy{Interrupted: job.InterruptedSkip, MaxAttempts: 1}
	paused := zkrec.Pause{Since: ms(t, "10:00:02"), Until: ms(t, "10:00:40")}
	for _, tt := range []struct {
		name     string
		policy   ticks.Policy
		pause    zkrec.Pause
		run      zkrec.Run
		requests string
		final    bool
		end      string
		next     string // at 10:01
	}{
		{"skip", never, zkrec.Pause{}, open, "", false, `interrupted 10:00#1; again "rerun" at 10:00:05`, `run 10:00#1; again "" at 00:00`},
		{"rerun", ticks.Policy{}, zkrec.Pause{}, open, "", false, `interrupted 10:00#1; again "rerun" at 10:00:05`, `run 10:00#1; again "" at 00:00`},
		{"at max_attempts", ticks.Policy{}, zkrec.Pause{}, attempt(open, 3, 0), "", false, `interrupted 10:00#3; again "rerun" at 10:00:05`, `run 10:00#3; again "" at 00:00`},
		{"a retry", never, zkrec.Pause{}, attempt(open, 2, 1), "", false, `interrupted 10:00#2; again "rerun" at 10:00:05`, `run 10:00#2; again "" at 00:00`},
		{"after a pause", never, paused, open, "", false, `interrupted 10:00#1; again "rerun" at 10:00:05`, `run 10:00#1; again "" at 00:00`},
		{"older than the grace by then", ticks.Policy{MisfireGrace: minute / 2}, zkrec.Pause{}, open, "", false, `interrupted 10:00#1; again "rerun" at 10:00:05`, `again "" at 00:00`},
		{"stopped by an operator", never, zkrec.Pause{}, open, "", true, "interrupted 10:00#1", "run 10:01#1; through 10:01"},
		{"manual", never, zkrec.Pause{}, manual(open, "ask"), "ask", false, `interrupted ask#1; again "rerun" at 10:00:05`, `run ask#1; again "" at 00:00`},
		{"manual, canceled by then", never, zkrec.Pause{}, manual(open, "ask"), "", false, `interrupted ask#1; again "rerun" at 10:00:05`, `again "" at 00:00`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, pause: tt.pause, last: tt.run, through: "10:00", now: "10:01"}.view(t)
			v.Requests = requests(tt.requests)
			before := v.Record
			plan := ticks.End(v.Job, before, ticks.Outcome{State: history.StateInterrupted, NotBegun: true, Ended: at(t, "10:00:05"), Final: tt.final})
			if got := say(before, plan); got != tt.end || !plan.Record.NotBegun || !plan.Entries[0].NotBegun {
				t.Errorf("End:\n got %s\nwant %s; %+v", got, tt.end, plan)
			}
			v.Record = plan.Record
			plan = wantPlan(t, v, tt.next)
			if r := plan.Record; plan.Opens && (r.NotBegun || r.Manual == "" && r.Attempt > 1 && r.Failures != tt.run.Failures) {
				t.Errorf("the record says %+v", r)
			}
		})
	}
}

// TestRetryAfterAChange: until the schedule was replaced there was no tick of
// the new one that a retry could be in the way of.
func TestRetryAfterAChange(t *testing.T) {
	t.Parallel()
	v := situation{policy: ticks.Policy{Retries: 1}, last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00"}.view(t)
	v.Since = at(t, "10:05:30")
	plan := ticks.End(v.Job, v.Record, ticks.Outcome{State: history.StateFailed, Ended: at(t, "10:05:40")})
	if want := `failed 10:00#1; again "retry" at 10:05:41`; say(v.Record, plan) != want {
		t.Errorf("End: %s, want %s", say(v.Record, plan), want)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		first time.Duration
		want  []time.Duration
	}{
		{0, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{time.Minute, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}},
		{10 * time.Hour, []time.Duration{10 * time.Hour, 20 * time.Hour, day, day}},
		{job.NoBackoff, []time.Duration{0, 0, 0}},
		{2 * day, []time.Duration{2 * day, 2 * day, 2 * day}},
	} {
		var got []time.Duration
		v := situation{schedule: "@at 2026-03-03T10:00:00Z", now: "10:00", policy: ticks.Policy{Retries: 100, Backoff: tt.first}}.view(t)
		for failures := range tt.want {
			v.Record.Run = attempt(run(t, history.StateRunning, "10:00", me, "10:00", ""), failures+1, failures)
			plan := ticks.End(v.Job, v.Record, ticks.Outcome{State: history.StateFailed, Ended: v.Now})
			got = append(got, time.UnixMilli(plan.Record.NextAttemptAt).Sub(v.Now))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("from %v: %v, want %v", tt.first, got, tt.want)
		}
	}
}

// TestBetweenMilliseconds: an owner's clock does not read whole milliseconds.
func TestBetweenMilliseconds(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:02"}.view(t)
	v.Now = v.Now.Add(-time.Nanosecond)
	wantPlan(t, v, "run 10:01#1; through 10:01")
	v.Now = at(t, "10:03").Add(-time.Nanosecond)
	wantPlan(t, v, "missed(stalled) 10:01; run 10:02#1; through 10:02")

	v = situation{policy: ticks.Policy{Misfire: job.MisfireSkip}, through: "10:00", now: "10:03:30"}.view(t)
	v.OwnedSince = at(t, "10:02").Add(time.Nanosecond)
	wantPlan(t, v, "missed(no_owner) 10:01 to 10:02, 2; missed(stalled) 10:03; through 10:03")
	v.OwnedSince = at(t, "10:02")
	wantPlan(t, v, "missed(no_owner) 10:01; missed(stalled) 10:02 to 10:03, 2; through 10:03")
	v.OwnedSince = at(t, "10:02").Add(-time.Nanosecond)
	wantPlan(t, v, "missed(no_owner) 10:01; missed(stalled) 10:02 to 10:03, 2; through 10:03")
}

// A job whose runs take longer than its period catches up with missed ticks: one owner, runs of 2.5
// s, a tick each second, ten missed ticks at first, and answers of ZooKeeper that are late now and
// then.
func TestQueueCatchesUpDespiteHiccups(t *testing.T) {
	t.Parallel()
	const period, length, answer, hiccup = time.Second, 2500 * time.Millisecond, 20 * time.Millisecond, 1900 * time.Millisecond
	begin := at(t, "10:00")
	of := ticks.Job{
		Schedule: schedule(t, "* * * * * ?"), Since: begin.Add(-time.Hour),
		Policy: &ticks.Policy{Misfire: job.MisfireAll, Overlap: job.OverlapQueue},
	}
	record := ticks.Record{Watermark: begin.Add(-10 * period).UnixMilli()}
	var worst time.Duration
	opened := 0
	for now := begin.Add(period); now.Before(begin.Add(10 * time.Minute)); {
		plan := ticks.Next(ticks.View{
			Job: of, Record: record, Now: now, SID: me, Token: 1, OwnedSince: begin, RunID: strconv.Itoa(opened),
		})
		if plan.Change {
			record = plan.Record
		}
		if !plan.Opens {
			if !plan.Change {
				now = of.Schedule.Next(now)
			}
			continue
		}
		opened++
		worst = max(worst, now.Sub(time.UnixMilli(record.Tick)))
		ended := now.Add(length)
		record = ticks.End(of, record, ticks.Outcome{State: history.StateOK, Ended: ended}).Record
		if now = ended.Add(answer); opened%8 == 7 && opened < 40 {
			now = ended.Add(hiccup)
		}
	}
	if most := 10*length + 5*hiccup; worst > most {
		t.Errorf("of %d runs one was %v late, want at most %v: ten missed ticks and five hiccups", opened, worst, most)
	}
}

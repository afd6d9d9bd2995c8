package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// first are the records of the first shard: its ticks up to a time are accounted for, and its runs
// are, oldest first; the last one is in the record, the others in the history.
type first struct {
	through string
	again   string // what follows the last run
	runs    []zkrec.Run
	written string
}

// began is a run of the first shard for which BeforeTick has returned nil at a time; "": it has
// not.
func began(t *testing.T, state history.State, tick, passed, ended string) zkrec.Run {
	t.Helper()
	r := run(t, state, tick, other, tick, ended)
	r.Passed = ms(t, passed)
	return r
}

func (f first) gate(t *testing.T) *ticks.Gate {
	t.Helper()
	r := ticks.Record{Watermark: ms(t, f.through), NextAttempt: f.again}
	var h zkrec.History
	for i, one := range f.runs {
		if i == len(f.runs)-1 {
			r.Run = one
			if one.Open() {
				continue
			}
		}
		h.Entries = append(h.Entries, zkrec.Entry{Run: one})
	}
	written := time.UnixMilli(0)
	if f.written != "" {
		written = at(t, f.written)
	}
	return ticks.GateOf(r, h, written)
}

// TestGate: the fate of the ticks of a shard, by the first one's records of them.
func TestGate(t *testing.T) {
	t.Parallel()
	skip, all, queue := ticks.Policy{Misfire: job.MisfireSkip}, ticks.Policy{Misfire: job.MisfireAll}, ticks.Policy{Overlap: job.OverlapQueue}
	ran := func(tick, passed string) zkrec.Run { return began(t, history.StateOK, tick, passed, passed) }
	prepares := func(tick string) zkrec.Run { return began(t, history.StateRunning, tick, "", "") }
	begun := func(tick, passed string) zkrec.Run { return began(t, history.StateRunning, tick, passed, "") }
	refused := func(tick string) zkrec.Run { return began(t, history.StateRefused, tick, "", tick) }
	failed := func(tick string) zkrec.Run { return began(t, history.StateFailed, tick, "", tick) }
	manual := began(t, history.StateRunning, "10:00:30", "", "")
	manual.Manual = "m"
	for _, tt := range []struct {
		name string
		situation
		first *first
		want  string
	}{
		{"nothing is known", situation{through: "10:00", now: "10:01"}, nil, ""},
		{"the first shard has not claimed it", situation{through: "10:00", now: "10:01"}, &first{through: "10:00"}, ""},
		{"BeforeTick is in progress", situation{through: "10:00", now: "10:01"}, &first{through: "10:01", runs: []zkrec.Run{prepares("10:01")}}, ""},
		{"it is to be called again", situation{through: "10:00", now: "10:01:10"}, &first{through: "10:01", again: history.NextRetry, runs: []zkrec.Run{failed("10:01")}}, ""},
		{"it has returned nil", situation{through: "10:00", now: "10:01:10"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:10")}}, "run 10:01#1; through 10:01"},
		{"and the first shard is to be repeated", situation{through: "10:00", now: "10:01:10"}, &first{through: "10:01", again: history.NextRetry, runs: []zkrec.Run{began(t, history.StateFailed, "10:01", "10:01:10", "10:01:10")}}, "run 10:01#1; through 10:01"},
		{"and the next one is being prepared", situation{through: "10:00", now: "10:02"}, &first{through: "10:02", runs: []zkrec.Run{ran("10:01", "10:02"), prepares("10:02")}}, "run 10:01#1; through 10:01"},
		{"refused", situation{through: "10:00", now: "10:01"}, &first{through: "10:01", runs: []zkrec.Run{refused("10:01")}}, "skipped(refused) 10:01; through 10:01"},
		{"failed for good", situation{through: "10:00", now: "10:01"}, &first{through: "10:01", runs: []zkrec.Run{failed("10:01")}}, "skipped(not_begun) 10:01; through 10:01"},
		{"failed, and then not", situation{through: "10:00", now: "10:01"}, &first{through: "10:01", runs: []zkrec.Run{failed("10:01"), begun("10:01", "10:01")}}, "run 10:01#1; through 10:01"},
		{"run by the first shard, which was interrupted, and again", situation{through: "10:00", now: "10:01"}, &first{through: "10:01", runs: []zkrec.Run{began(t, history.StateInterrupted, "10:01", "10:01", "10:01"), prepares("10:01")}}, "run 10:01#1; through 10:01"},
		{"skipped by the first shard", situation{through: "10:00", now: "10:02"}, &first{through: "10:02", runs: []zkrec.Run{ran("10:00", "10:00")}}, "skipped(not_begun) 10:01 to 10:02, 2; through 10:02"},
		{"of several the latest that has begun", situation{through: "10:00", now: "10:05"}, &first{through: "10:05", runs: []zkrec.Run{ran("10:01", "10:01"), refused("10:02"), ran("10:03", "10:03"), refused("10:04"), failed("10:05")}},
			"missed(stalled) 10:01; skipped(refused) 10:02; run 10:03#1; through 10:03"},
		{"each that has begun", situation{policy: all, through: "10:00", now: "10:05"}, &first{through: "10:05", runs: []zkrec.Run{refused("10:01"), ran("10:02", "10:02"), ran("10:05", "10:05")}},
			"skipped(refused) 10:01; run 10:02#1; through 10:02"},
		{"the history does not go back that far", situation{through: "10:00", now: "10:05"}, &first{through: "10:05", runs: []zkrec.Run{refused("10:04"), refused("10:05")}},
			"missed(stalled) 10:01 to 10:03, 3; skipped(refused) 10:04; skipped(refused) 10:05; through 10:05"},
		{"a manual run of the first shard", situation{through: "10:00", now: "10:01"}, &first{through: "10:00", runs: []zkrec.Run{manual}}, ""},

		{"what has waited is no misfire", situation{policy: skip, through: "10:00", now: "10:01:40"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:39")}}, "run 10:01#1; through 10:01"},
		{"and is one if it comes too late after that", situation{policy: skip, through: "10:00", now: "10:01:41"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:39")}}, "missed(stalled) 10:01; through 10:01"},
		{"by ZooKeeper's clock, if that of the first shard's owner is behind", situation{policy: skip, through: "10:00", now: "10:01:40"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:09")}, written: "10:01:39"}, "run 10:01#1; through 10:01"},
		{"nor older than its grace", situation{policy: ticks.Policy{MisfireGrace: minute / 2}, through: "10:00", now: "10:01:40"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:39")}}, "run 10:01#1; through 10:01"},
		{"our clock is behind", situation{through: "10:00", now: "10:00:59"}, &first{through: "10:01", runs: []zkrec.Run{begun("10:01", "10:01:09")}}, ""},

		{"it begins during a run", situation{last: run(t, history.StateOK, "10:00", me, "10:00", "10:01:30"), through: "10:00", now: "10:01:31"}, &first{through: "10:01", runs: []zkrec.Run{ran("10:00", "10:00"), begun("10:01", "10:01:10")}}, "skipped(overlap) 10:01; through 10:01"},
		{"it begins when the run has ended", situation{last: run(t, history.StateOK, "10:00", me, "10:00", "10:01:30"), through: "10:00", now: "10:01:50"}, &first{through: "10:01", runs: []zkrec.Run{ran("10:00", "10:00"), begun("10:01", "10:01:50")}}, "run 10:01#1; through 10:01"},
		{"one during the run, one after it", situation{last: run(t, history.StateOK, "10:00", me, "10:00", "10:02:30"), through: "10:00", now: "10:02:50"}, &first{through: "10:02", runs: []zkrec.Run{ran("10:00", "10:00"), ran("10:01", "10:01:10"), begun("10:02", "10:02:50")}}, "skipped(overlap) 10:01; through 10:01"},
		{"refused during a run", situation{last: run(t, history.StateOK, "10:00", me, "10:00", "10:01:30"), through: "10:00", now: "10:01:31"}, &first{through: "10:01", runs: []zkrec.Run{ran("10:00", "10:00"), refused("10:01")}}, "skipped(refused) 10:01; through 10:01"},
		{"queued", situation{policy: queue, last: run(t, history.StateOK, "10:00", me, "10:00", "10:01:30"), through: "10:00", now: "10:01:31"}, &first{through: "10:01", runs: []zkrec.Run{ran("10:00", "10:00"), begun("10:01", "10:01:10")}}, "run 10:01#1; through 10:01"},
		{"paused", situation{pause: zkrec.Pause{Since: ms(t, "10:00:30"), Until: ms(t, "10:02:30")}, through: "10:00", now: "10:03"}, &first{through: "10:03", runs: []zkrec.Run{ran("10:00", "10:00"), ran("10:03", "10:03")}},
			"skipped(paused) 10:01 to 10:02, 2; run 10:03#1; through 10:03"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Gated = true
			var gate *ticks.Gate
			if tt.first != nil {
				gate = tt.first.gate(t)
			}
			v.Job = v.Of("rows[1]", gate)
			plan := wantPlan(t, v, tt.want)
			if want := plan.Opens; want != (plan.Record.Passed != 0) || want && !gate.Begun(plan.Record.Tick) {
				t.Errorf("the claim says that it began at %d", plan.Record.Passed)
			}
		})
	}
}

// The first shard waits for nobody, and no shard of another job does.
func TestGateIsOfOtherShards(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:01"}.view(t)
	for _, slot := range []string{"rows", "rows[0]", "rows/app-1"} {
		v.Gated = true
		v.Job = v.Of(slot, nil)
		wantPlan(t, v, "run 10:01#1; through 10:01")
	}
	v.Gated = false
	v.Job = v.Of("rows[1]", nil)
	wantPlan(t, v, "run 10:01#1; through 10:01")
}

// That BeforeTick has returned nil stays on record through every further attempt. A refused tick
// has none.
func TestPassed(t *testing.T) {
	t.Parallel()
	v := situation{policy: ticks.Policy{Retries: 1}, last: run(t, history.StateRunning, "10:00", me, "10:00", ""), through: "10:00", now: "10:00:20"}.view(t)
	passed := ticks.Pass(v.Record, at(t, "10:00:10"))
	if !passed.Change || passed.Record.Passed != ms(t, "10:00:10") || passed.Record.RunID != v.Record.RunID || len(passed.Entries) > 0 {
		t.Fatalf("Pass = %+v", passed)
	}
	end := ticks.End(v.Job, passed.Record, ticks.Outcome{State: history.StateFailed, Ended: at(t, "10:00:15")})
	if end.Record.Passed != passed.Record.Passed || end.Entries[0].Passed != passed.Record.Passed {
		t.Errorf("End = %+v", end)
	}
	v.Record, v.Now = end.Record, at(t, "10:00:30")
	if retry := ticks.Next(v); !retry.Opens || retry.Record.Attempt != 2 || retry.Record.Passed != passed.Record.Passed {
		t.Errorf("the retry: %+v", retry)
	}
	v.Record = passed.Record
	if again := ticks.Next(v); !again.Opens || again.Record.Passed != passed.Record.Passed || again.Entries[0].Passed != passed.Record.Passed {
		t.Errorf("after an interruption: %+v", again)
	}
	refused := ticks.End(v.Job, v.Record, ticks.Outcome{State: history.StateRefused, Ended: at(t, "10:00:15")})
	if refused.Record.NextAttempt != "" || refused.Record.State != history.StateRefused {
		t.Errorf("a refused run: %+v", refused)
	}
}

// A shard that waits is not taken from its owner, and no alarm is raised for it: for both, the
// first shard's ticks count.
func TestWaitingIsNotOverdue(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:10"}.view(t)
	v.Gated = true
	of := func(f first) ticks.Job { return v.Of("rows[1]", f.gate(t)) }
	for _, tt := range []struct {
		name               string
		gate               first
		since, late, waits string
	}{
		{"it waits", first{through: "10:01", runs: []zkrec.Run{began(t, history.StateRunning, "10:01", "", "")}}, "", "", "10:01"},
		{"it may run", first{through: "10:01", runs: []zkrec.Run{began(t, history.StateRunning, "10:01", "10:09:30", "")}}, "10:09:30", "", "10:02"},
		{"it could have run long ago", first{through: "10:10", runs: []zkrec.Run{began(t, history.StateOK, "10:01", "10:08:30", "10:08:40")}}, "10:08:30", "10:01", ""},
		{"it is refused", first{through: "10:10", runs: []zkrec.Run{began(t, history.StateRefused, "10:01", "", "10:09:30")}}, "", "", ""},
		{"it was refused long ago", first{through: "10:10", runs: []zkrec.Run{began(t, history.StateRefused, "10:01", "", "10:08:30")}}, "", "10:01", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := of(tt.gate)
			if got := ticks.Unclaimed(job, v.Record, nil, v.Now); !same(got, ms(t, tt.since)) {
				t.Errorf("unclaimed since %v, want %s", got, tt.since)
			}
			if got, again := ticks.Overdue(job, v.Record, false, v.Now); !same(got, ms(t, tt.late)) || again.IsZero() {
				t.Errorf("overdue %v, want %s; again %v", got, tt.late, again)
			}
			if got := ticks.Waiting(job, v.Record, v.Now); !same(got, ms(t, tt.waits)) {
				t.Errorf("waiting %v, want %s", got, tt.waits)
			}
		})
	}
}

// An owner that follows the first shard knows by its own clock when a tick has begun.
func TestGateSeenSince(t *testing.T) {
	t.Parallel()
	v := situation{policy: ticks.Policy{Misfire: job.MisfireSkip}, through: "10:00", now: "10:01:40"}.view(t)
	v.Gated = true
	prepares := first{through: "10:01", runs: []zkrec.Run{began(t, history.StateRunning, "10:01", "", "")}}.gate(t)
	begun := first{through: "10:01", runs: []zkrec.Run{began(t, history.StateRunning, "10:01", "10:01:10", "")}}.gate(t)
	ended := first{through: "10:02", runs: []zkrec.Run{began(t, history.StateOK, "10:01", "10:01:10", "10:01:50"), began(t, history.StateRefused, "10:02", "", "10:02")}}.gate(t)
	decide := func(gate *ticks.Gate, now, want string) {
		t.Helper()
		v.Job, v.Now = v.Of("rows[1]", gate), at(t, now)
		wantPlan(t, v, want)
	}
	decide(begun, "10:01:40", "missed(stalled) 10:01; through 10:01")
	seen := begun.SeenSince(prepares, at(t, "10:01:39"))
	decide(seen, "10:01:40", "run 10:01#1; through 10:01")
	decide(seen, "10:01:41", "missed(stalled) 10:01; through 10:01")
	decide(ended.SeenSince(seen, at(t, "10:02:10")), "10:01:40", "run 10:01#1; through 10:01")
	decide(ended.SeenSince(seen, at(t, "10:02:10")), "10:01:41", "missed(stalled) 10:01; through 10:01")
	decide(ended.SeenSince(prepares, at(t, "10:02:10")), "10:02:10", "run 10:01#1; through 10:01")
	decide(begun, "10:01:40", "missed(stalled) 10:01; through 10:01") // it was not changed
}

package ticks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A slot whose layout has bounds: ticks every minute, from 09:40 on, up to 09:50.
func TestTicksOfALayout(t *testing.T) {
	t.Parallel()
	all := ticks.Policy{Misfire: job.MisfireAll}
	for _, tt := range []struct {
		name string
		situation
		want string
	}{
		{"the first after the layout before", situation{policy: all, through: "09:05", now: "09:41:00.2"}, "run 09:41#1; through 09:41"},
		{"none before", situation{policy: all, through: "09:05", now: "09:40:30"}, ""},
		{"one that is further on", situation{policy: all, through: "09:45", now: "09:46"}, "run 09:46#1; through 09:46"},
		{"the last", situation{through: "09:49", now: "09:55"}, "run 09:50#1; through 09:50"},
		{"not those after", situation{through: "09:50", now: "09:55"}, ""},
		{"missed ones", situation{through: "09:44", now: "10:30", policy: ticks.Policy{Misfire: job.MisfireSkip}},
			"missed(stalled) 09:45 to 09:50, 6; through 09:50"},
		{"the latest of them is run", situation{through: "09:44", now: "10:30"}, "missed(stalled) 09:45 to 09:49, 5; run 09:50#1; through 09:50"},
	} {
		v := tt.view(t)
		v.From, v.To = at(t, "09:40"), at(t, "09:50")
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantPlan(t, v, tt.want)
		})
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	ok := run(t, history.StateOK, "09:50", me, "09:50", "09:51")
	open := run(t, history.StateRunning, "09:50", me, "09:50", "")
	for what, row := range map[string]struct {
		record ticks.Record
		want   bool
	}{
		"done":                 {ticks.Record{Watermark: ms(t, "09:50"), Run: ok}, true},
		"beyond":               {ticks.Record{Watermark: ms(t, "09:51"), Run: ok}, true},
		"the last tick to run": {ticks.Record{Watermark: ms(t, "09:49"), Run: ok}, false},
		"a run is in progress": {ticks.Record{Watermark: ms(t, "09:50"), Run: open}, false},
		"to be run again":      {ticks.Record{Watermark: ms(t, "09:50"), Run: ok, NextAttempt: history.NextRetry}, false},
		"nothing ever claimed": {ticks.Record{}, false},
	} {
		job := ticks.Job{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00"), To: at(t, "09:50"), Policy: &ticks.Policy{}}
		if got := ticks.Settled(job, row.record); got != row.want {
			t.Errorf("%s: %v, want %v", what, got, row.want)
		}
	}
	// Before the last tick of the layout is known, nothing is claimed.
	unknown := ticks.Job{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00"), To: at(t, "00:00"), Policy: &ticks.Policy{}}
	if plan := ticks.Next(ticks.View{Job: unknown, Now: at(t, "09:30"), SID: me, RunID: "new"}); plan.Change {
		t.Errorf("a change: %+v", plan)
	}
}

// A schedule that is replaced while the job is resharded: the slot accounts for its ticks up to the
// end of its layout, and the slots of the next one for the others.
func TestScheduleReplacedDuringResharding(t *testing.T) {
	t.Parallel()
	replaced := func(through string) ticks.View {
		v := situation{through: through, now: "10:30"}.view(t)
		v.Former, v.Since = []ticks.Former{{Schedule: v.Schedule, Since: v.Since}}, at(t, "10:00")
		return v
	}
	old := replaced("09:44")
	old.To = at(t, "09:50")
	if ticks.Settled(old.Job, old.Record) {
		t.Error("settled, and six ticks are not accounted for")
	}
	wantPlan(t, old, "missed(schedule_changed) 09:45 to 09:50, 6; through 09:50")
	old.Record.Watermark = ms(t, "09:50")
	if !ticks.Settled(old.Job, old.Record) {
		t.Error("not settled, and all ticks are accounted for")
	}
	wantPlan(t, old, "")
	next := replaced("09:50")
	next.From = at(t, "09:50")
	wantPlan(t, next, "missed(schedule_changed) 09:51 to 10:00, 10; through 10:00")
}

// shard writes records as "09:41 ok, 09:42 failed retry": the last is the record's run.
func shard(t *testing.T, text string) ticks.Shard {
	t.Helper()
	var s ticks.Shard
	var log zkrec.Log
	for part := range strings.SplitSeq(text, ", ") {
		words := strings.Fields(part)
		tick, to, row := strings.Cut(words[0], "-")
		r := run(t, history.State(words[1]), tick, me, tick, tick)
		r.RunID = part
		if len(words) > 2 {
			s.Record.NextAttempt = words[2]
		}
		e := ticks.Entry{Run: r}
		if row {
			e.RunID, e.To = "", ms(t, to)
		} else {
			s.Record.Run = r
		}
		s.Record.Watermark = e.Last()
		if !r.Open() {
			log = log.Add(zkrec.MinHistory, 0, e)
		}
	}
	s.History = log.History()
	return s
}

func TestCompleted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		later  string
		shards []string
		want   string
	}{
		{"all ran", "09:40", []string{"09:41 ok", "09:41 failed"}, "09:41: ok failed"},
		{"reported before", "09:41", []string{"09:41 ok", "09:41 failed"}, ""},
		{"one is running", "09:40", []string{"09:41 ok", "09:41 running"}, ""},
		{"one is to be retried", "09:40", []string{"09:41 ok", "09:41 failed retry"}, ""},
		{"one is to be rerun", "09:40", []string{"09:41 ok", "09:41 interrupted rerun"}, ""},
		{"one is behind", "09:40", []string{"09:41 ok, 09:42 ok", "09:41 ok"}, "09:41: ok ok"},
		{"one was retried", "09:40", []string{"09:41 ok", "09:41 failed, 09:41 ok"}, "09:41: ok ok"},
		{"several", "09:40", []string{"09:41 ok, 09:42 failed", "09:41 ok, 09:42 ok"}, "09:41: ok ok; 09:42: failed ok"},
		{"one has skipped it", "09:40", []string{"09:41 ok, 09:42 ok", "09:40-09:42 skipped"}, "09:41: ok skipped; 09:42: ok skipped"},
		{"none has run it", "09:40", []string{"09:41-09:45 missed", "09:41-09:45 missed"}, ""},
		{"one runs a later tick", "09:40", []string{"09:41 ok, 09:42 running", "09:41 ok, 09:42 ok"}, "09:41: ok ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var shards []ticks.Shard
			for _, text := range tt.shards {
				shards = append(shards, shard(t, text))
			}
			var got []string
			for _, c := range ticks.Completed(shards, ms(t, tt.later)) {
				states := make([]string, len(c.Shards))
				for i, e := range c.Shards {
					states[i] = string(e.State)
				}
				got = append(got, clock(c.Tick)+": "+strings.Join(states, " "))
			}
			if text := strings.Join(got, "; "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

// Manual runs make no tick complete or incomplete.
func TestManualRunsCompleteNothing(t *testing.T) {
	t.Parallel()
	manual := run(t, history.StateRunning, "09:41:30", me, "09:41:30", "")
	manual.Manual = "q1"
	busy := shard(t, "09:41 ok")
	busy.Record.Run = manual
	list := ticks.Completed([]ticks.Shard{busy, shard(t, "09:41 ok")}, ms(t, "09:40"))
	if len(list) != 1 || list[0].Shards[0].State != history.StateOK {
		t.Errorf("completed %+v, want 09:41", list)
	}
}

// A history that does not go back to a tick says nothing of it.
func TestCompletedBeyondTheHistory(t *testing.T) {
	t.Parallel()
	slow := shard(t, "09:01 ok")
	var ran []string
	for n := range zkrec.MinHistory + 6 {
		ran = append(ran, fmt.Sprintf("09:%02d ok", n+1))
	}
	list := ticks.Completed([]ticks.Shard{slow, shard(t, strings.Join(ran, ", "))}, ms(t, "09:00"))
	if len(list) != 1 || list[0].Shards[0].State != history.StateOK || list[0].Shards[1].State != "" || list[0].Shards[1].Tick != ms(t, "09:01") {
		t.Errorf("completed %+v, want 09:01 with one outcome known", list)
	}
}

// Resharding that takes too long is noticed: the ticks that wait for its end are overdue.
func TestOverdueDuringResharding(t *testing.T) {
	t.Parallel()
	job := ticks.Job{
		Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00"), To: at(t, "09:50"), Policy: &ticks.Policy{AlarmAfter: 5 * minute},
	}
	done := ticks.Record{Watermark: ms(t, "09:50"), Run: run(t, history.StateOK, "09:50", me, "09:50", "09:51")}
	if tick, again := ticks.Overdue(job, done, false, at(t, "09:55")); !tick.IsZero() || !again.Equal(at(t, "09:56")) {
		t.Errorf("overdue %v, look again %v; want nothing until 09:56", tick, again)
	}
	if tick, _ := ticks.Overdue(job, done, false, at(t, "09:56")); !tick.Equal(at(t, "09:51")) {
		t.Errorf("overdue %v, want 09:51", tick)
	}
}

package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

const minute = time.Minute

// situation is a View of a job that fires every minute, if nothing else is
// said, and exists since 09:00; me owns it since 09:30.
type situation struct {
	schedule string
	policy   ticks.Policy
	pause    zkrec.Pause
	owned    string
	last     zkrec.Run
	busy     string
	through  string
	now      string
}

func (s situation) view(t *testing.T) ticks.View {
	t.Helper()
	if s.schedule == "" {
		s.schedule = "0 * * * * ?"
	}
	if s.owned == "" {
		s.owned = "09:30"
	}
	if s.pause.Since == 0 { // it was paused long ago
		s.pause.Since, s.pause.Until = 1, 2
	}
	return ticks.View{
		Job:    ticks.Job{Schedule: schedule(t, s.schedule), Since: at(t, "09:00"), Policy: &s.policy, Paused: &s.pause},
		Record: ticks.Record{Watermark: ms(t, s.through), Run: s.last, BusySince: ms(t, s.busy)},
		Now:    at(t, s.now),
		SID:    me, Token: tokens[me], OwnedSince: at(t, s.owned), RunID: "new",
	}
}

func wantPlan(t *testing.T, v ticks.View, want string) ticks.Plan {
	t.Helper()
	plan := ticks.Next(v)
	if got := say(v.Record, plan); got != want {
		t.Errorf("Next:\n got %s\nwant %s", got, want)
	}
	return plan
}

// TestDue: nothing runs, and the ticks since the last one are decided.
func TestDue(t *testing.T) {
	t.Parallel()
	skip := ticks.Policy{Misfire: job.MisfireSkip}
	all := ticks.Policy{Misfire: job.MisfireAll}
	for _, tt := range []struct {
		name string
		situation
		want string
	}{
		{"nothing was ever claimed, and nothing is due", situation{now: "09:00:59"}, ""},
		{"nothing is due", situation{through: "10:00", now: "10:00:59.999"}, ""},
		{"a tick", situation{through: "10:00", now: "10:01"}, "run 10:01#1; through 10:01"},
		{"the first tick", situation{owned: "09:00", now: "09:01"}, "run 09:01#1; through 09:01"},
		{"no tick up to Since is the job's", situation{owned: "08:00", through: "08:00", now: "09:01"}, "run 09:01#1; through 09:01"},

		{"misfire once: late", situation{through: "10:00", now: "10:01:59"}, "run 10:01#1; through 10:01"},
		{"misfire once: many, with an owner", situation{through: "10:00", now: "10:05:30"}, "missed(stalled) 10:01 to 10:04, 4; run 10:05#1; through 10:05"},
		{"misfire once: many, without", situation{through: "10:00", owned: "10:05:20", now: "10:05:30"}, "missed(no_owner) 10:01 to 10:04, 4; run 10:05#1; through 10:05"},
		{"misfire once: one left out", situation{through: "10:00", now: "10:02:30"}, "missed(stalled) 10:01; run 10:02#1; through 10:02"},
		{"misfire once: the latest is on time", situation{through: "10:00", now: "10:02"}, "missed(stalled) 10:01; run 10:02#1; through 10:02"},

		{"misfire skip: on time up to a second", situation{policy: skip, through: "10:00", now: "10:01:01"}, "run 10:01#1; through 10:01"},
		{"misfire skip: late", situation{policy: skip, through: "10:00", now: "10:01:01.001"}, "missed(stalled) 10:01; through 10:01"},
		{"misfire skip: many", situation{policy: skip, through: "10:00", owned: "10:03:10", now: "10:05:30"}, "missed(no_owner) 10:01 to 10:03, 3; missed(stalled) 10:04 to 10:05, 2; through 10:05"},
		{"misfire skip: the latest is on time", situation{policy: skip, through: "10:00", now: "10:02:00.500"}, "missed(stalled) 10:01; run 10:02#1; through 10:02"},

		{"misfire all: each in order", situation{policy: all, through: "10:00", now: "10:05:30"}, "run 10:01#1; through 10:01"},
		{"misfire all: at most 100, the latest", situation{policy: all, owned: "10:00", through: "09:00", now: "10:50:30"}, "missed(no_owner) 09:01 to 09:10, 10; run 09:11#1; through 09:11"},

		{"grace: not older than that", situation{policy: ticks.Policy{MisfireGrace: minute}, through: "10:00", now: "10:02"}, "missed(stalled) 10:01; run 10:02#1; through 10:02"},
		{"grace: as old as that", situation{policy: ticks.Policy{MisfireGrace: minute / 2}, through: "10:00", now: "10:02:30"}, "missed(stalled) 10:01; run 10:02#1; through 10:02"},
		{"grace: older", situation{policy: ticks.Policy{MisfireGrace: minute / 2}, through: "10:00", now: "10:02:30.001"}, "missed(stalled) 10:01 to 10:02, 2; through 10:02"},
		{"grace with misfire all", situation{policy: ticks.Policy{Misfire: job.MisfireAll, MisfireGrace: 2 * minute}, through: "10:00", now: "10:05:30"}, "missed(stalled) 10:01 to 10:03, 3; run 10:04#1; through 10:04"},
		{"grace shorter than what is on time", situation{policy: ticks.Policy{MisfireGrace: minute / 120}, through: "10:00", now: "10:01:00.600"}, "missed(stalled) 10:01; through 10:01"},

		{"the clock was set back", situation{through: "11:00", now: "10:00"}, ""},
		{"the clock was set back, a little", situation{through: "10:01", now: "10:01:00.500"}, ""},
		{"the clock jumped an hour ahead", situation{through: "10:00", now: "11:00"}, "missed(stalled) 10:01 to 10:59, 59; run 11:00#1; through 11:00"},

		{"@at", situation{schedule: "@at 2026-03-03T10:00:00Z", now: "10:00"}, "run 10:00#1; through 10:00"},
		{"@at, late", situation{schedule: "@at 2026-03-03T10:00:00Z", now: "15:00"}, "run 10:00#1; through 10:00"},
		{"@at, late, misfire skip", situation{policy: skip, schedule: "@at 2026-03-03T10:00:00Z", now: "15:00"}, "missed(stalled) 10:00; through 10:00"},
		{"@at, before", situation{schedule: "@at 2026-03-03T10:00:00Z", now: "09:59:59.999"}, ""},
		{"@at, over", situation{schedule: "@at 2026-03-03T10:00:00Z", through: "10:00", now: "15:00"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantPlan(t, tt.view(t), tt.want)
		})
	}
}

// TestOverlap: ticks that come during a run, while it is in progress ("r1" is active)
// and when it has ended.
func TestOverlap(t *testing.T) {
	t.Parallel()
	queue := ticks.Policy{Overlap: job.OverlapQueue}
	open := func(sid, started string) zkrec.Run { return run(t, history.StateRunning, "10:00", sid, started, "") }
	ended := func(started, at string) zkrec.Run { return run(t, history.StateOK, "10:00", me, started, at) }
	for _, tt := range []struct {
		name string
		situation
		active string
		want   string
	}{
		{"none has come", situation{last: open(me, "10:00"), through: "10:00", now: "10:00:59"}, "r1", ""},
		{"skip", situation{last: open(me, "10:00"), through: "10:00", now: "10:01"}, "r1", "skipped(overlap) 10:01; through 10:01"},
		{"skip: many", situation{last: open(me, "10:00"), through: "10:00", now: "10:03:20"}, "r1", "skipped(overlap) 10:01 to 10:03, 3; through 10:03"},
		{"skip: older ones wait for the run's end", situation{last: open(me, "10:02:30"), through: "10:01", now: "10:03"}, "r1", ""},
		{"skip: one as old as the run is older", situation{last: open(me, "10:02"), through: "10:01", now: "10:03"}, "r1", ""},
		{"queue", situation{policy: queue, last: open(me, "10:00"), through: "10:00", now: "10:03"}, "r1", ""},
		{"the record is of another run", situation{last: open(other, "10:00"), through: "10:00", now: "10:01"}, "older", ""},
		{"the run began under an older token", situation{last: open(other, "10:00"), through: "10:00", now: "10:01"}, "r1", ""},
		{"the clock was set back during the run", situation{last: open(me, "10:30"), through: "10:00", now: "10:01"}, "r1", ""},

		{"ended, skip", situation{last: ended("10:00", "10:02:30"), through: "10:00", now: "10:02:30.100"}, "", "skipped(overlap) 10:01 to 10:02, 2; through 10:02"},
		{"ended, skip: a moment after a tick", situation{last: ended("10:00", "10:01"), through: "10:00", now: "10:01"}, "", "skipped(overlap) 10:01; through 10:01"},
		{"ended, skip: a moment before a tick", situation{last: ended("10:00", "10:00:59.999"), through: "10:00", now: "10:01"}, "", "run 10:01#1; through 10:01"},
		{"ended, skip: a moment before a tick that is missed", situation{policy: ticks.Policy{Misfire: job.MisfireSkip}, last: ended("10:00", "10:00:59.999"), through: "10:00", now: "10:01:30"}, "", "missed(stalled) 10:01; through 10:01"},
		{"ended, skip: those after it are judged for themselves", situation{last: ended("10:00", "10:01:30"), through: "10:00", now: "10:02:30"}, "", "skipped(overlap) 10:01; through 10:01"},
		{"ended, skip: judged together with older ones", situation{last: ended("10:02", "10:03:30"), through: "10:00", now: "10:03:40"}, "", "missed(stalled) 10:01 to 10:02, 2; run 10:03#1; through 10:03"},
		{"ended, queue", situation{policy: queue, last: ended("10:00", "10:01:30"), through: "10:00", now: "10:01:30"}, "", "run 10:01#1; through 10:01"},
		{"ended, queue: the latest", situation{policy: queue, last: ended("10:00", "10:03:30"), through: "10:00", now: "10:03:30"}, "", "skipped(overlap) 10:01 to 10:02, 2; run 10:03#1; through 10:03"},
		{
			"ended, queue: whatever the misfire policy is",
			situation{policy: ticks.Policy{Overlap: job.OverlapQueue, Misfire: job.MisfireSkip}, last: ended("10:00", "10:03:30"), through: "10:00", now: "10:03:30"},
			"", "skipped(overlap) 10:01 to 10:02, 2; run 10:03#1; through 10:03",
		},
		{
			"ended, queue: also if all missed ones are run",
			situation{policy: ticks.Policy{Overlap: job.OverlapQueue, Misfire: job.MisfireAll}, last: ended("10:00", "10:03:30"), through: "10:00", now: "10:03:30"},
			"", "skipped(overlap) 10:01 to 10:02, 2; run 10:03#1; through 10:03",
		},
		{
			"ended, queue: not one below the grace",
			situation{policy: ticks.Policy{Overlap: job.OverlapQueue, MisfireGrace: minute / 6}, last: ended("10:00", "10:03:30"), through: "10:00", now: "10:03:30"},
			"", "skipped(overlap) 10:01 to 10:03, 3; through 10:03",
		},
		{
			"ended, queue: the others are judged for themselves",
			situation{policy: ticks.Policy{Overlap: job.OverlapQueue, Misfire: job.MisfireSkip}, last: ended("10:00", "10:00:30"), through: "10:00", now: "10:02:30"},
			"", "missed(stalled) 10:01 to 10:02, 2; through 10:02",
		},
		{
			"ended, queue: also during the runs before",
			situation{policy: ticks.Policy{Overlap: job.OverlapQueue, Misfire: job.MisfireSkip}, last: ended("10:02:30", "10:03:30"), busy: "10:01", through: "10:00", now: "10:03:40"},
			"", "missed(stalled) 10:01; skipped(overlap) 10:02; run 10:03#1; through 10:03",
		},
		{"the run was another owner's", situation{policy: queue, owned: "10:02:20", last: run(t, history.StateOK, "10:00", other, "10:00", "10:01:30"), through: "10:00", now: "10:02:30"}, "", "missed(no_owner) 10:01; run 10:02#1; through 10:02"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Active = tt.active
			wantPlan(t, v, tt.want)
		})
	}
}

// TestPause: ticks that a pause holds back, and their fate when it is over.
func TestPause(t *testing.T) {
	t.Parallel()
	paused := func(since, until, missed string) zkrec.Pause {
		return zkrec.Pause{Since: ms(t, since), Until: ms(t, until), Missed: job.MisfirePolicy(missed)}
	}
	open := run(t, history.StateRunning, "10:00", me, "10:00", "")
	for _, tt := range []struct {
		name string
		situation
		active string
		want   string
	}{
		{"until it is resumed", situation{pause: paused("10:00:30", "", ""), through: "10:00", now: "10:05"}, "", ""},
		{"until a time", situation{pause: paused("10:00:30", "10:30", ""), through: "10:00", now: "10:05"}, "", "wake 10:30"},
		{"it holds older ticks back, too", situation{pause: paused("10:05", "10:30", ""), through: "10:00", now: "10:05"}, "", "wake 10:30"},
		{"it begins", situation{pause: paused("10:00:30", "", ""), through: "10:00", now: "10:00:29.999"}, "", ""},
		{"it holds the records of a run's overlap back", situation{pause: paused("10:00:30", "", ""), last: open, through: "10:00", now: "10:01"}, "r1", ""},

		{"over: skip", situation{pause: paused("10:00:30", "10:03:20", ""), through: "10:00", now: "10:03:20"}, "", "skipped(paused) 10:01 to 10:03, 3; through 10:03"},
		{"over: once", situation{pause: paused("10:00:30", "10:03:20", "once"), through: "10:00", now: "10:03:20"}, "", "skipped(paused) 10:01 to 10:02, 2; run 10:03#1; through 10:03"},
		{"over: all", situation{pause: paused("10:00:30", "10:03:20", "all"), through: "10:00", now: "10:03:20"}, "", "run 10:01#1; through 10:01"},
		{"over: the misfire policy is for the others", situation{
			policy: ticks.Policy{Misfire: job.MisfireAll}, pause: paused("10:01:30", "10:03:20", ""), through: "10:00", now: "10:04:20",
		}, "", "run 10:01#1; through 10:01"},
		{"over: before, during and after", situation{
			policy: ticks.Policy{Misfire: job.MisfireSkip}, pause: paused("10:01:30", "10:03:20", ""), through: "10:00", now: "10:05:20",
		}, "", "missed(stalled) 10:01; skipped(paused) 10:02 to 10:03, 2; missed(stalled) 10:04 to 10:05, 2; through 10:05"},
		{"over: only the latest of all is run once", situation{pause: paused("10:01:30", "10:03:20", "once"), through: "10:00", now: "10:04:20"}, "",
			"missed(stalled) 10:01; skipped(paused) 10:02 to 10:03, 2; run 10:04#1; through 10:04"},
		{"over: on a tick, which is no longer in it", situation{pause: paused("10:00:30", "10:03", ""), through: "10:00", now: "10:03"}, "",
			"skipped(paused) 10:01 to 10:02, 2; run 10:03#1; through 10:03"},
		{"over: it began on a tick", situation{pause: paused("10:01", "10:01:30", ""), through: "10:00", now: "10:01:30"}, "", "skipped(paused) 10:01; through 10:01"},
		{"over: it began and ended on ticks", situation{
			policy: ticks.Policy{Misfire: job.MisfireSkip}, pause: paused("10:02", "10:04", ""), through: "10:00", now: "10:05:20",
		}, "", "missed(stalled) 10:01; skipped(paused) 10:02 to 10:03, 2; missed(stalled) 10:04 to 10:05, 2; through 10:05"},
		{"over: in part before the owner came", situation{
			pause: paused("10:01:30", "10:03:20", ""), owned: "10:02:30", through: "10:00", now: "10:03:20",
		}, "", "run 10:01#1; through 10:01"},
		{"over: older than the grace", situation{
			policy: ticks.Policy{MisfireGrace: minute / 6}, pause: paused("10:00:30", "10:03:20", "all"), through: "10:00", now: "10:03:20",
		}, "", "skipped(paused) 10:01 to 10:03, 3; through 10:03"},

		{"over, in a run: skip", situation{pause: paused("10:00:30", "10:02:30", ""), last: open, through: "10:00", now: "10:03"}, "r1",
			"skipped(paused) 10:01 to 10:02, 2; skipped(overlap) 10:03; through 10:03"},
		{"over, in a run: once waits for its end", situation{pause: paused("10:00:30", "10:02:30", "once"), last: open, through: "10:00", now: "10:03"}, "r1", ""},
		{"over, in a run: those before it do not", situation{pause: paused("10:01:30", "10:02:30", "all"), last: open, through: "10:00", now: "10:03"}, "r1",
			"skipped(overlap) 10:01; through 10:01"},
		{"over, in a run: no tick was in it", situation{pause: paused("10:01:20", "10:01:40", "all"), last: open, through: "10:00", now: "10:03"}, "r1",
			"skipped(overlap) 10:01; skipped(overlap) 10:02 to 10:03, 2; through 10:03"}, // which the history joins
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := tt.view(t)
			v.Active = tt.active
			wantPlan(t, v, tt.want)
		})
	}
}

// TestFormer: the job was every minute until 10:03:30 and is every ten minutes
// since.
func TestFormer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		through, now string
		since        string // of the former
		last         zkrec.Run
		active       string
		want         string
	}{
		{"all was claimed", "10:03", "10:05", "09:00", zkrec.Run{}, "", ""},
		{"one was not", "10:02", "10:05", "09:00", zkrec.Run{}, "", "missed(schedule_changed) 10:03; through 10:03:30"},
		{"some were not", "10:00", "10:12", "09:00", zkrec.Run{}, "", "missed(schedule_changed) 10:01 to 10:03, 3; through 10:03:30"},
		{"some were before the former's time", "09:00", "10:05", "10:01:30", zkrec.Run{}, "", "missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30"},
		{"none was, ever", "", "10:05", "10:00:30", zkrec.Run{}, "", "missed(schedule_changed) 10:01 to 10:03, 3; through 10:03:30"},
		{"claims were ahead of the change", "10:04", "10:05", "09:00", zkrec.Run{}, "", ""},
		{"a run is in progress", "10:01", "10:10", "09:00", run(t, history.StateRunning, "10:01", me, "10:01", ""), "r1",
			"missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30"},
		{"then the new one's", "10:03:30", "10:10", "09:00", zkrec.Run{}, "", "run 10:10#1; through 10:10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: "0 0/10 * * * ?", through: tt.through, now: tt.now, last: tt.last}.view(t)
			v.Since, v.Former = at(t, "10:03:30"), []ticks.Former{{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, tt.since)}}
			v.Active = tt.active
			wantPlan(t, v, tt.want)
		})
	}
}

// TestFormerThatLasts: the job is every ten minutes from 10:05:30 on, a time that ZooKeeper's clock
// has given, and it is 10:03:30. The ticks of the schedule before are missed when they have come.
func TestFormerThatLasts(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:03:30"}.view(t)
	v.Schedule = schedule(t, "0 */10 * * * ?")
	v.Since, v.Former = at(t, "10:05:30"), []ticks.Former{{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00")}}
	wantPlan(t, v, "missed(schedule_changed) 10:01 to 10:03, 3; through 10:03:30")
	v.Now, v.Record.Watermark = at(t, "10:06"), ms(t, "10:03:30")
	wantPlan(t, v, "missed(schedule_changed) 10:04 to 10:05, 2; through 10:05:30")
}

// TestFormerThatNeverBegan: the job was every minute, from 10:09 on every 20 seconds, by a clock
// that was ahead, and is every ten minutes since 10:02:30, as is known now.
func TestFormerThatNeverBegan(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:06"}.view(t)
	v.Schedule = schedule(t, "0 */10 * * * ?")
	v.Since, v.Former = at(t, "10:02:30"), []ticks.Former{
		{Schedule: schedule(t, "*/20 * * * * ?"), Since: at(t, "10:09")}, {Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00")},
	}
	wantPlan(t, v, "missed(schedule_changed) 10:01 to 10:02, 2; through 10:02:30")
	v.Record.Watermark = ms(t, "10:02:30")
	wantPlan(t, v, "")
	v.Former = append([]ticks.Former{{Schedule: v.Schedule, Since: v.Since}}, v.Former...) // it is replaced as well, at 10:08
	v.Since = at(t, "10:08")
	wantPlan(t, v, "")
}

// TestTwoFormer: every minute until 10:03:30, every 20 seconds until 10:05:10, and every ten
// minutes since, while nobody owned the job.
func TestTwoFormer(t *testing.T) {
	t.Parallel()
	for through, want := range map[string]string{
		"10:01":    "missed(schedule_changed) 10:02 to 10:03, 2; missed(schedule_changed) 10:03:40 to 10:05, 5; through 10:05:10",
		"10:03:30": "missed(schedule_changed) 10:03:40 to 10:05, 5; through 10:05:10",
		"10:04:20": "missed(schedule_changed) 10:04:40 to 10:05, 2; through 10:05:10",
		"10:05:10": "",
	} {
		v := situation{schedule: "0 0/10 * * * ?", through: through, now: "10:06"}.view(t)
		v.Since, v.Former = at(t, "10:05:10"), []ticks.Former{
			{Schedule: schedule(t, "0/20 * * * * ?"), Since: at(t, "10:03:30")},
			{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00")},
		}
		wantPlan(t, v, want)
	}
}

// TestFormerInAPause: as in TestFormer, and since 10:02:30 the job is paused. Missed ticks are
// recorded nevertheless, because the next change of the schedule may come before the end of the
// pause.
func TestFormerInAPause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		last   zkrec.Run
		again  string
		active string
		want   string
	}{
		{"nothing runs", zkrec.Run{}, "", "", "missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30"},
		{"a run is in progress", run(t, history.StateRunning, "10:01", me, "10:01", ""), "", "r1", "missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30"},
		{"a further attempt waits for the end of the pause", run(t, history.StateInterrupted, "10:01", me, "10:01", "10:01:05"), history.NextRerun, "",
			`missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30; again "rerun" at 10:01:05`},
		{"a retry does not", run(t, history.StateFailed, "10:01", me, "10:01", "10:01:05"), history.NextRetry, "",
			`missed(schedule_changed) 10:02 to 10:03, 2; through 10:03:30; again "" at 00:00`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: "0 0/10 * * * ?", pause: zkrec.Pause{Since: ms(t, "10:02:30")}, last: tt.last, through: "10:01", now: "10:10"}.view(t)
			v.Since, v.Former = at(t, "10:03:30"), []ticks.Former{{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00")}}
			v.Record.NextAttempt, v.Record.NextAttemptAt = tt.again, tt.last.Ended
			v.Active, v.Requests = tt.active, requests("ask")
			plan := wantPlan(t, v, tt.want)
			v.Record = plan.Record
			if next := ticks.Next(v); next.Opens != (tt.active == "") || next.Record.Tick == ms(t, "10:10") {
				t.Errorf("then: %s, want only requested runs", say(v.Record, next))
			}
		})
	}
}

// TestLongOutage: a job of each second that nobody owned for a year. The cost is bounded, see
// BenchmarkNext.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	v := situation{schedule: "* * * * * ?", owned: "10:00", now: "10:00"}.view(t)
	v.Since = v.Now.AddDate(-1, 0, 0)
	v.Record.Watermark = v.Since.UnixMilli()

	v.Policy.Misfire = job.MisfireOnce
	plan := wantPlan(t, v, "missed(no_owner) 10:00:01 to 09:59:58, 10000; run 09:59:59#1; through 09:59:59") // two are on time
	if e := plan.Entries[0]; e.Tick != v.Since.UnixMilli()+1000 || e.To != v.Now.UnixMilli()-2000 {
		t.Errorf("the row is %+v", e)
	}
	v.Policy.Misfire = job.MisfireAll
	wantPlan(t, v, "missed(no_owner) 10:00:01 to 09:58:20, 10000; run 09:58:21#1; through 09:58:21")
	v.Former, v.Since = []ticks.Former{{Schedule: v.Schedule, Since: v.Since}}, at(t, "09:30")
	wantPlan(t, v, "missed(schedule_changed) 10:00:01 to 09:30, 10000; through 09:30")
}

// TestCatchingUp: misfire all runs the missed ticks one after the other, then
// the next is on time.
func TestCatchingUp(t *testing.T) {
	t.Parallel()
	v := situation{policy: ticks.Policy{Misfire: job.MisfireAll}, through: "10:00", now: "10:03:30"}.view(t)
	for _, tick := range []string{"10:01", "10:02", "10:03"} {
		plan := wantPlan(t, v, "run "+tick+"#1; through "+tick)
		v.Record, v.Now = plan.Record, v.Now.Add(time.Second)
		v.Record = ticks.End(v.Job, v.Record, ticks.Outcome{State: history.StateOK, Ended: v.Now}).Record
	}
	wantPlan(t, v, "")
	v.Now = at(t, "10:04")
	wantPlan(t, v, "run 10:04#1; through 10:04")
}

// TestDaylightSaving: a job at 02:30 and one each half hour, in a night without
// the hour from two to three, and one each half hour in a night with two of it.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		schedule, from, now string
		want                string
		count               int
	}{
		{"0 30 2 * * ?", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z", 1},
		{"0 0/30 * * * ?", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T02:00:00Z", 4},
		{"0 0/30 * * * ?", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z", 4},
	} {
		v := situation{through: "09:00", now: "09:00"}.view(t)
		if v.Schedule, err = cronexpr.Parse(tt.schedule, zone); err != nil {
			t.Fatal(err)
		}
		v.Since, v.Now = rfc(t, tt.from), rfc(t, tt.now)
		plan := ticks.Next(v)
		n := 1
		for _, e := range plan.Entries {
			n += e.Ticks()
		}
		if !plan.Opens || !time.UnixMilli(plan.Record.Tick).Equal(rfc(t, tt.want)) || n != tt.count {
			t.Errorf("%s from %s: %+v, want a run of %s, %d ticks", tt.schedule, tt.from, plan, tt.want, tt.count)
		}
	}
}

// A tick that came before the instance was there is not its tick, whatever the policy says; a
// hand-over may take a second.
func TestEverywhereAbsent(t *testing.T) {
	t.Parallel()
	for _, misfire := range []job.MisfirePolicy{job.MisfireOnce, job.MisfireAll, job.MisfireSkip} {
		s := situation{through: "09:20", now: "09:30:30", policy: ticks.Policy{Misfire: misfire, Everywhere: true}, owned: "09:30:30"}
		plan := ticks.Next(s.view(t))
		if plan.Opens || len(plan.Entries) != 1 || plan.Entries[0].State != history.StateSkipped || plan.Entries[0].Reason != history.ReasonAbsent ||
			plan.Entries[0].Ticks() != 10 || plan.Record.Watermark != ms(t, "09:30") {
			t.Errorf("%s: %+v", misfire, plan)
		}
		s.owned, s.now = "09:30:01", "09:30:01"
		if plan := ticks.Next(s.view(t)); !plan.Opens || plan.Record.Tick != ms(t, "09:30") || len(plan.Entries) != 1 || plan.Entries[0].Ticks() != 9 {
			t.Errorf("%s, a second late: %+v", misfire, plan)
		}
	}
}

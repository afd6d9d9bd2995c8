package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// waiting is a record whose last run, at 10:00, is followed by another attempt.
func waiting(t *testing.T, what, when string, last zkrec.Run) ticks.Record {
	t.Helper()
	return ticks.Record{Watermark: ms(t, "10:00"), Run: last, NextAttempt: what, NextAttemptAt: ms(t, when)}
}

// TestUnclaimed: runs that a job which fires every minute has left unclaimed, and when a run may
// become due next. No requests are known.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	through := func(watermark string) ticks.Record { return ticks.Record{Watermark: ms(t, watermark)} }
	after := func(last zkrec.Run) ticks.Record { return ticks.Record{Watermark: ms(t, "10:00"), Run: last} }
	paused := func(since, until, missed string) zkrec.Pause {
		return zkrec.Pause{Since: ms(t, since), Until: ms(t, until), Missed: job.MisfirePolicy(missed)}
	}
	ok := run(t, history.StateOK, "10:00", me, "10:00", "10:00:05")
	long := run(t, history.StateOK, "10:00", me, "10:00", "10:01:30")
	open := run(t, history.StateRunning, "10:00", me, "10:00", "")
	failed := run(t, history.StateFailed, "10:00", me, "10:00", "10:00:05")
	interrupted := run(t, history.StateInterrupted, "10:00", me, "10:00", "10:00:05")
	skip, once := string(job.MisfireSkip), string(job.MisfireOnce)
	for _, tt := range []struct {
		name   string
		policy ticks.Policy
		pause  zkrec.Pause
		record ticks.Record
		now    string
		since  string // "" means that nothing is unclaimed
		next   string // "" means never
	}{
		{"nothing is due", ticks.Policy{}, zkrec.Pause{}, through("10:00"), "10:00:59.999", "", "10:01"},
		{"a tick", ticks.Policy{}, zkrec.Pause{}, through("10:00"), "10:01", "10:01", "10:02"},
		{"a tick that is late", ticks.Policy{}, zkrec.Pause{}, through("10:00"), "10:01:30", "10:01", "10:02"},
		{"the first of several that are on time", ticks.Policy{Schedule: "* * * * * ?"}, zkrec.Pause{}, through("10:00"), "10:00:02", "10:00:01", "10:00:03"},
		{"the one of several that would run", ticks.Policy{}, zkrec.Pause{}, through("10:00"), "10:05:30", "10:05", "10:06"},
		{"the first of several, all of which would run", ticks.Policy{Misfire: job.MisfireAll}, zkrec.Pause{}, through("10:00"), "10:05:30", "10:01", "10:06"},
		{"claimed, and the run has ended", ticks.Policy{}, zkrec.Pause{}, after(ok), "10:00:30", "", "10:01"},
		{"the next tick after a run", ticks.Policy{}, zkrec.Pause{}, after(ok), "10:01:00.100", "10:01", "10:02"},
		{"a run is open", ticks.Policy{}, zkrec.Pause{}, after(open), "10:00:30", "", "10:01"},
		{"a run is open, and a tick has come since", ticks.Policy{}, zkrec.Pause{}, after(open), "10:05:30", "", "10:06"},
		{"accounted for ahead of time", ticks.Policy{}, zkrec.Pause{}, through("10:07"), "10:05:30", "", "10:08"},

		{"nothing was ever claimed", ticks.Policy{}, zkrec.Pause{}, ticks.Record{}, "09:01", "09:01", "09:02"},
		{"nothing was ever claimed, and nothing is due", ticks.Policy{}, zkrec.Pause{}, ticks.Record{}, "09:00:59", "", "09:01"},
		{"the job is to begin", ticks.Policy{}, zkrec.Pause{}, ticks.Record{}, "08:00", "", "09:01"},

		{"misfire skip: on time", ticks.Policy{Misfire: job.MisfireSkip}, zkrec.Pause{}, through("10:00"), "10:01:01", "10:01", "10:02"},
		{"misfire skip: too late to run", ticks.Policy{Misfire: job.MisfireSkip}, zkrec.Pause{}, through("10:00"), "10:01:02", "", "10:02"},
		{"misfire grace: too late to run", ticks.Policy{MisfireGrace: 20 * time.Second}, zkrec.Pause{}, through("10:00"), "10:01:21", "", "10:02"},

		{"a tick during a run, which is skipped", ticks.Policy{Overlap: job.OverlapSkip}, zkrec.Pause{}, after(long), "10:01:40", "", "10:02"},
		{"a tick after one that is skipped", ticks.Policy{Overlap: job.OverlapSkip}, zkrec.Pause{}, after(long), "10:02", "10:02", "10:03"},
		{"a tick during a run, which is queued", ticks.Policy{Overlap: job.OverlapQueue}, zkrec.Pause{}, after(long), "10:01:40", "10:01", "10:02"},

		{"a retry is not due", ticks.Policy{Retries: 3}, zkrec.Pause{}, waiting(t, history.NextRetry, "10:00:20", failed), "10:00:19.999", "", "10:00:20"},
		{"a retry after a run that ended ahead of time", ticks.Policy{Retries: 3}, zkrec.Pause{}, waiting(t, history.NextRetry, "10:00:30", run(t, history.StateFailed, "10:00", me, "10:00", "10:00:25")), "10:00:10", "", "10:00:30"},
		{"a retry", ticks.Policy{Retries: 3}, zkrec.Pause{}, waiting(t, history.NextRetry, "10:00:20", failed), "10:00:20.500", "10:00:20", "10:01"},
		{"a retry that a tick replaces", ticks.Policy{Retries: 3}, zkrec.Pause{}, waiting(t, history.NextRetry, "10:00:20", failed), "10:01", "10:01", "10:02"},
		{"a retry later than a tick", ticks.Policy{Retries: 3}, zkrec.Pause{}, waiting(t, history.NextRetry, "10:01:20", failed), "10:00:30", "", "10:01"},
		{"a rerun", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", interrupted), "10:00:06", "10:00:05", "10:01"},
		{"a rerun before ticks", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", interrupted), "10:05:30", "10:00:05", "10:06"},
		{"a rerun that is not allowed any more", ticks.Policy{MaxAttempts: 1}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", interrupted), "10:00:30", "", "10:01"},
		{"a tick after a rerun that is not allowed any more", ticks.Policy{MaxAttempts: 1}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", interrupted), "10:01", "10:01", "10:02"},
		{"a manual run's rerun", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", manual(interrupted, "ask")), "10:00:30", "", "10:01"},
		{"a tick after a manual run's rerun", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", manual(interrupted, "ask")), "10:01", "10:01", "10:02"},

		{"paused", ticks.Policy{}, paused("10:00:30", "", ""), through("10:00"), "10:05:30", "", ""},
		{"paused, before the pause", ticks.Policy{}, paused("10:00:30", "", ""), through("10:00"), "10:00:20", "", ""},
		{"paused, a tick was due before", ticks.Policy{}, paused("10:01:30", "", ""), through("10:00"), "10:05:30", "", ""},
		{"paused for a time", ticks.Policy{}, paused("10:00:30", "10:10:30", ""), through("10:00"), "10:05:30", "", "10:10:30"},
		{"paused until shortly before the next tick", ticks.Policy{}, paused("10:00:30", "10:10:30", ""), through("10:00"), "10:10:10", "", "10:10:30"},
		{"paused, a rerun waits", ticks.Policy{}, paused("10:00:02", "", ""), waiting(t, history.NextRerun, "10:00:05", interrupted), "10:05:30", "", ""},
		{"after a pause, a rerun", ticks.Policy{}, paused("10:00:02", "10:03:30", ""), waiting(t, history.NextRerun, "10:00:05", interrupted), "10:03:31", "10:00:05", "10:04"},
		{"after a pause, what it leaves out", ticks.Policy{}, paused("10:00:30", "10:03:30", skip), through("10:00"), "10:03:40", "", "10:04"},
		{"after a pause, what it puts off", ticks.Policy{}, paused("10:00:30", "10:03:30", once), through("10:00"), "10:03:40", "10:03", "10:04"},
		{"after a pause, a tick", ticks.Policy{}, paused("10:00:30", "10:03:30", skip), through("10:00"), "10:04", "10:04", "10:05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: tt.policy.Schedule, policy: tt.policy, pause: tt.pause, now: tt.now}.view(t)
			wantUnclaimed(t, v.Job, tt.record, v.Now, tt.since, tt.next)
		})
	}
}

// A manual run is due when it is requested, unless something else goes before it.
func TestUnclaimedRequest(t *testing.T) {
	t.Parallel()
	ok := run(t, history.StateOK, "10:00", me, "10:00", "10:00:05")
	interrupted := run(t, history.StateInterrupted, "10:00", me, "10:00", "10:00:05")
	asked := manual(interrupted, "ask")
	for _, tt := range []struct {
		name   string
		policy ticks.Policy
		pause  zkrec.Pause
		record ticks.Record
		now    string
		since  string
	}{
		{"a request", ticks.Policy{}, zkrec.Pause{}, ticks.Record{Watermark: ms(t, "10:00"), Run: ok}, "10:00:31", "10:00:20"},
		{"in a pause", ticks.Policy{}, zkrec.Pause{Since: ms(t, "10:00:10")}, ticks.Record{Watermark: ms(t, "10:00"), Run: ok}, "10:00:31", "10:00:20"},
		{"a tick goes first", ticks.Policy{}, zkrec.Pause{}, ticks.Record{Watermark: ms(t, "10:00"), Run: ok}, "10:01:31", "10:01"},
		{"a rerun goes first", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:05", interrupted), "10:00:31", "10:00:05"},
		{"its rerun", ticks.Policy{}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:25", asked), "10:00:31", "10:00:25"},
		{"its rerun is not allowed any more", ticks.Policy{MaxAttempts: 1}, zkrec.Pause{}, waiting(t, history.NextRerun, "10:00:25", asked), "10:00:31", ""},
		{"its run is open", ticks.Policy{}, zkrec.Pause{}, ticks.Record{Watermark: ms(t, "10:00"), Run: manual(run(t, history.StateRunning, "10:00:20", me, "10:00:20", ""), "ask")}, "10:00:31", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, pause: tt.pause, now: tt.now}.view(t)
			ask := []ticks.Request{{ID: "ask", Request: zkrec.Request{At: at(t, "10:00:20")}}}
			got := ticks.Unclaimed(v.Job, tt.record, ask, v.Now)
			if got.IsZero() != (tt.since == "") || !same(got, ms(t, tt.since)) {
				t.Errorf("unclaimed since %v, want %q", got, tt.since)
			}
			if len(ask) != 1 || ask[0].ID != "ask" {
				t.Errorf("the requests are changed: %v", ask)
			}
		})
	}
}

func wantUnclaimed(t *testing.T, of ticks.Job, r ticks.Record, now time.Time, since, next string) {
	t.Helper()
	is := func(got time.Time, want string) bool { return got.IsZero() == (want == "") && same(got, ms(t, want)) }
	if got := ticks.Unclaimed(of, r, nil, now); !is(got, since) {
		t.Errorf("unclaimed since %v, want %q", got, since)
	}
	if got := ticks.NextDue(of, r, now); !is(got, next) {
		t.Errorf("next due at %v, want %q", got, next)
	}
}

// A slot of a job that is being resharded runs nothing after the bound, and one of the new layout
// nothing before its own.
func TestUnclaimedInALayout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, from, to, through, now, since, next string }{
		{"up to the bound", "", "10:02", "10:01", "10:05:30", "10:02", ""},
		{"all up to the bound", "", "10:02", "10:02", "10:05:30", "", ""},
		{"before the bound", "", "10:02", "10:00", "10:00:30", "", "10:01"},
		{"no bound yet", "", "00:00", "10:00", "10:05:30", "", ""},
		{"from the bound on", "10:02", "", "09:00", "10:05:30", "10:05", "10:06"},
		{"before the layout", "10:02", "", "09:00", "10:02:30", "", "10:03"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{through: tt.through, now: tt.now}.view(t)
			if tt.from != "" {
				v.From = at(t, tt.from)
			}
			if tt.to != "" {
				v.To = at(t, tt.to)
			}
			wantUnclaimed(t, v.Job, v.Record, v.Now, tt.since, tt.next)
		})
	}
}

// The job was every minute until 10:03:30 and is every ten minutes since: missed ticks of the
// former schedule are recorded, and do not run.
func TestUnclaimedOfAFormerSchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, through, now, since, next string }{
		{"all is accounted for", "10:03", "10:03:40", "", "10:10"},
		{"ticks were missed", "10:00", "10:03:40", "", "10:10"},
		{"a tick of the new one, after ticks that were missed", "10:00", "10:10", "10:10", "10:20"},
		{"a tick of the new one", "10:03", "10:10:00.300", "10:10", "10:20"},
		{"the former was claimed ahead of time", "10:15", "10:12", "", "10:20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: "0 */10 * * * ?", through: tt.through, now: tt.now}.view(t)
			v.Since, v.Former = at(t, "10:03:30"), []ticks.Former{{Schedule: schedule(t, "0 * * * * ?"), Since: at(t, "09:00")}}
			wantUnclaimed(t, v.Job, v.Record, v.Now, tt.since, tt.next)
		})
	}
}

// The last tick there is.
func TestUnclaimedAtATime(t *testing.T) {
	t.Parallel()
	v := situation{schedule: "@at 2026-03-03T10:00:00Z", policy: ticks.Policy{Retries: 3}, now: "10:00:01"}.view(t)
	wantUnclaimed(t, v.Job, v.Record, at(t, "09:30"), "", "10:00")
	wantUnclaimed(t, v.Job, v.Record, v.Now, "10:00", "")
	wantUnclaimed(t, v.Job, ticks.Record{Watermark: ms(t, "10:00")}, v.Now, "", "")
	failed := waiting(t, history.NextRetry, "10:00:20", run(t, history.StateFailed, "10:00", me, "10:00", "10:00:01"))
	wantUnclaimed(t, v.Job, failed, v.Now, "", "10:00:20")
	wantUnclaimed(t, v.Job, failed, at(t, "10:00:20"), "10:00:20", "")
}

// A record of a tick that the schedule does not have comes from an owner with other rules: nothing
// of it is overdue here, or the slot would be taken from either of the two at each tick.
func TestUnclaimedOfAnotherSchedule(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		schedule, last string
		begins         string
		manual         bool
		former         string
		want           bool
	}{
		"a tick":                      {"0 */10 * * * ?", "10:00", "09:00", false, "", false},
		"another one":                 {"0 5/10 * * * ?", "10:00", "09:00", false, "", true},
		"a manual run":                {"0 5/10 * * * ?", "10:00", "09:00", true, "", false},
		"of before the schedule":      {"0 5/10 * * * ?", "10:00", "10:00", false, "", false},
		"of the schedule before":      {"0 5/10 * * * ?", "10:00", "09:59", false, "0 */10 * * * ?", false},
		"not of the schedule before":  {"0 5/10 * * * ?", "10:00", "09:59", false, "0 7/10 * * * ?", true},
		"the schedule before is lost": {"0 5/10 * * * ?", "10:00", "09:59", false, "?", false},
		"a job that always runs":      {"@always", "10:00", "09:00", false, "", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: tt.schedule, now: "10:30"}.view(t)
			v.Since = at(t, tt.begins)
			if tt.former == "?" {
				v.Former = []ticks.Former{{Since: at(t, "09:00")}}
			} else if tt.former != "" {
				v.Former = []ticks.Former{{Schedule: schedule(t, tt.former), Since: at(t, "09:00")}}
			}
			last := run(t, history.StateOK, tt.last, me, tt.last, "10:00:05")
			if tt.manual {
				last = manual(last, "ask")
			}
			record := ticks.Record{Watermark: ms(t, tt.last), Run: last}
			if got := ticks.Foreign(v.Job, record); got != tt.want {
				t.Errorf("foreign: %v, want %v", got, tt.want)
			}
			if got := ticks.Unclaimed(v.Job, record, nil, v.Now); got.IsZero() != tt.want {
				t.Errorf("unclaimed since %v", got)
			}
			if ticks.Foreign(v.Job, ticks.Record{Watermark: ms(t, tt.last)}) {
				t.Error("a slot that has not run yet is foreign")
			}
		})
	}
}

package ticks_test

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// frozen is a job whose group was frozen when the job was paused.
func frozen(of ticks.Job) ticks.Job {
	if of.Paused != nil {
		of.Frozen, of.Paused = []zkrec.Pause{*of.Paused}, nil
	}
	return of
}

// TestFreezeIsAPause: in random histories, each decision is the same whether a job is paused or its
// group frozen, but for the reason.
func TestFreezeIsAPause(t *testing.T) {
	t.Parallel()
	var compared, rows atomic.Int64
	look := mutant{plan: func(v ticks.View, p *ticks.Plan) {
		if v.Paused == nil {
			return
		}
		of := v
		of.Job = frozen(v.Job)
		got := ticks.Next(of)
		got.Entries = slices.Clone(got.Entries)
		for i := range got.Entries {
			if e := &got.Entries[i]; e.Reason == history.ReasonFrozen {
				e.Reason = history.ReasonPaused
				rows.Add(1)
			} else if e.Reason == history.ReasonPaused {
				t.Errorf("%+v in a freeze", e)
			}
		}
		compared.Add(1)
		if !reflect.DeepEqual(got, *p) && (len(got.Entries)+len(p.Entries) > 0 || got.Change != p.Change || got.Record != p.Record || !got.Wake.Equal(p.Wake)) {
			t.Errorf("frozen: %+v\npaused: %+v", got, *p)
		}
		for what, ask := range map[string]func(ticks.Job) time.Time{
			"next due":  func(j ticks.Job) time.Time { return ticks.NextDue(j, v.Record, v.Now) },
			"unclaimed": func(j ticks.Job) time.Time { return ticks.Unclaimed(j, v.Record, v.Requests, v.Now) },
			"next run":  func(j ticks.Job) time.Time { return j.NextRun(time.UnixMilli(v.Record.Watermark), v.Now) },
			"overdue":   func(j ticks.Job) time.Time { tick, _ := ticks.Overdue(j, v.Record, false, v.Now); return tick },
			"overrun":   func(j ticks.Job) time.Time { return ticks.Overrun(j, v.Record.Run) },
		} {
			if f, p := ask(of.Job), ask(v.Job); !f.Equal(p) {
				t.Errorf("%s: %v frozen, %v paused, %+v", what, f, p, v.Paused)
			}
		}
	}}
	const few = 4
	if simkit.Test(t, few, worlds(look), nil) >= few && (compared.Load() < 1000 || rows.Load() < 100) {
		t.Errorf("%d decisions, and %d rows, were compared", compared.Load(), rows.Load())
	}
}

// TestFreezeAndPause: a job is paused, and its group is frozen, at times that overlap.
func TestFreezeAndPause(t *testing.T) {
	t.Parallel()
	span := func(since, until string, missed job.MisfirePolicy) zkrec.Pause {
		p := zkrec.Pause{Since: ms(t, since), Missed: missed}
		if until != "" {
			p.Until = ms(t, until)
		}
		return p
	}
	for _, tt := range []struct {
		name   string
		pause  zkrec.Pause
		frozen []zkrec.Pause
		now    string
		want   string
	}{
		{"paused by the clock of ZooKeeper, which is ahead", span("10:02", "", ""), nil, "10:01:01", ""},
		{"frozen by the clock of ZooKeeper, which is ahead", zkrec.Pause{}, []zkrec.Pause{span("10:02", "", "")}, "10:01:01", ""},
		{"the freeze lasts longer than the pause", span("10:00:30", "10:03:30", ""), []zkrec.Pause{span("10:02:30", "10:05:30", "")}, "10:03", "wake 10:05:30"},
		{"the pause lasts longer than the freeze", span("10:00:30", "", ""), []zkrec.Pause{span("10:02:30", "10:05:30", "")}, "10:03", ""},
		{
			"the strictest policy holds", span("10:00:30", "10:02:30", "skip"), []zkrec.Pause{span("10:00:30", "10:03:30", "all")}, "10:04",
			"skipped(paused) 10:01 to 10:02, 2; run 10:03#1; through 10:03",
		},
		{
			"several freezes", zkrec.Pause{}, []zkrec.Pause{span("10:00:30", "10:01:30", "skip"), span("10:02:30", "10:03:30", "skip")}, "10:04",
			"skipped(frozen) 10:01; missed(stalled) 10:02; skipped(frozen) 10:03; run 10:04#1; through 10:04",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{pause: tt.pause, through: "10:00", now: tt.now, policy: ticks.Policy{Misfire: job.MisfireSkip}}.view(t)
			v.Frozen = tt.frozen
			wantPlan(t, v, tt.want)
		})
	}
}

// TestFreezeAlarms: the time until a tick is missed for good goes on when the freezes that it came
// in are over, and not while one has no end.
func TestFreezeAlarms(t *testing.T) {
	t.Parallel()
	span := func(since, until string) zkrec.Pause {
		p := zkrec.Pause{Since: ms(t, since)}
		if until != "" {
			p.Until = ms(t, until)
		}
		return p
	}
	for _, tt := range []struct {
		name   string
		frozen []zkrec.Pause
		now    string
		missed string
	}{
		{"no freeze", nil, "10:03", "10:01"},
		{"it has no end", []zkrec.Pause{span("10:00:30", "")}, "10:30", ""},
		{"it has ended a moment ago", []zkrec.Pause{span("10:00:30", "10:10")}, "10:10:59", ""},
		{"it has ended long ago", []zkrec.Pause{span("10:00:30", "10:10")}, "10:11:01", "10:01"},
		{"another one began then", []zkrec.Pause{span("10:00:30", "10:10"), span("10:10:30", "")}, "10:30", ""},
		{"it began too late", []zkrec.Pause{span("10:02:30", "")}, "10:03", "10:01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{through: "10:00", now: tt.now}.view(t)
			v.Frozen = tt.frozen
			want := time.Time{}
			if tt.missed != "" {
				want = at(t, tt.missed)
			}
			if tick, _ := ticks.Overdue(v.Job, v.Record, false, v.Now); !tick.Equal(want) {
				t.Errorf("%v is overdue, want %v", tick, want)
			}
		})
	}
}

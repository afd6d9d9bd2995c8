package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestOverdue: ticks up to 10:00 are accounted for; the alarm is after 30 s.
func TestOverdue(t *testing.T) {
	t.Parallel()
	paused := func(since, until string) zkrec.Pause { return zkrec.Pause{Since: ms(t, since), Until: ms(t, until)} }
	for _, tt := range []struct {
		name     string
		schedule string
		pause    zkrec.Pause
		running  bool
		now      string
		tick     string // "" means no tick
		again    string // "" means never
	}{
		{"nothing is due", "", zkrec.Pause{}, false, "10:00:10", "", "10:01:30"},
		{"due, and not yet overdue", "", zkrec.Pause{}, false, "10:01:29.999", "", "10:01:30"},
		{"overdue", "", zkrec.Pause{}, false, "10:01:30", "10:01", "10:02"},
		{"overdue for long: the first", "", zkrec.Pause{}, false, "10:07", "10:01", "10:07:30"},
		{"a run is in progress", "", zkrec.Pause{}, true, "10:07", "", "10:07:30"},
		{"the clock was set back", "", zkrec.Pause{}, false, "08:00", "", "10:01:30"},
		{"no more ticks", "@at 2026-03-03T10:00:00Z", zkrec.Pause{}, false, "10:07", "", ""},
		{"@at", "@at 2026-03-03T10:00:01Z", zkrec.Pause{}, false, "10:07", "10:00:01", "10:07:30"},

		{"paused", "", paused("10:00:30", ""), false, "10:07", "", "10:07:30"},
		{"paused for a time", "", paused("10:00:30", "10:10"), false, "10:07", "", "10:10:30"},
		{"paused for a time that is over", "", paused("10:00:30", "10:10"), false, "10:10:29", "", "10:10:30"},
		{"not in time after a pause", "", paused("10:00:30", "10:10"), false, "10:10:30", "10:01", "10:11"},
		{"paused, the tick was before", "", paused("10:01:05", ""), false, "10:07", "", "10:07:30"},
		{"paused for a time, the tick was before", "", paused("10:01:05", "10:10"), false, "10:07", "", "10:10:30"},
		{"paused, the tick was overdue before", "", paused("10:01:30", ""), false, "10:07", "10:01", "10:07:30"},
		{"a pause is over since before the tick", "", paused("09:50", "10:01"), false, "10:01:30", "10:01", "10:02"},
		{"a pause is over long since", "", paused("09:10", "09:20"), false, "10:01:30", "10:01", "10:02"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{
				schedule: tt.schedule, pause: tt.pause, through: "10:00", now: tt.now,
				policy: ticks.Policy{AlarmAfter: 30 * time.Second},
			}.view(t)
			tick, again := ticks.Overdue(v.Job, v.Record, tt.running, v.Now)
			if !same(tick, ms(t, tt.tick)) || !same(again, ms(t, tt.again)) {
				t.Errorf("Overdue: %v, look again %v, want %q, %q", tick, again, tt.tick, tt.again)
			}
		})
	}
}

func TestOverdueWithoutAlarm(t *testing.T) {
	t.Parallel()
	for _, pause := range []zkrec.Pause{{}, {Since: 1, Until: 2}} {
		v := situation{through: "10:00", now: "10:30", pause: pause, policy: ticks.Policy{AlarmAfter: job.NoAlarm}}.view(t)
		if tick, again := ticks.Overdue(v.Job, v.Record, false, v.Now); !tick.IsZero() || !again.IsZero() {
			t.Errorf("Overdue: %v, look again %v, want neither", tick, again)
		}
	}
}

func same(got time.Time, want int64) bool {
	return want == 0 && got.IsZero() || got.UnixMilli() == want
}

func TestOverdueDefault(t *testing.T) {
	t.Parallel()
	v := situation{through: "10:00", now: "10:02"}.view(t)
	if tick, again := ticks.Overdue(v.Job, v.Record, false, v.Now); !same(tick, ms(t, "10:01")) || !same(again, ms(t, "10:03")) {
		t.Errorf("Overdue: %v, look again %v, want the tick after a minute", tick, again)
	}
}

// The owner runs other ticks than the schedule has here. It has until the tick after the one that
// is not accounted for, as its own may be in between.
func TestOverdueOfAnOwnerWithOtherTicks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schedule, now, tick, again string }{
		{"0 5/10 * * * ?", "10:05:30", "", "10:15:30"}, {"0 5/10 * * * ?", "10:15:29", "", "10:15:30"},
		{"0 5/10 * * * ?", "10:15:30", "10:05", "10:16"}, {"0 0/10 * * * ?", "10:10:30", "10:10", "10:11"},
	} {
		v := situation{schedule: tt.schedule, now: tt.now, policy: ticks.Policy{AlarmAfter: 30 * time.Second}}.view(t)
		v.Since = at(t, "09:00")
		record := ticks.Record{Watermark: ms(t, "10:00"), Run: run(t, history.StateOK, "10:00", me, "10:00", "10:00:05")}
		if tick, again := ticks.Overdue(v.Job, record, false, v.Now); !same(tick, ms(t, tt.tick)) || !same(again, ms(t, tt.again)) {
			t.Errorf("%s at %s: %v, look again %v, want %q, %q", tt.schedule, tt.now, tick, again, tt.tick, tt.again)
		}
	}
}

package runner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Ticks at 12:00, 12:01 and so on; clocks are given in minutes after 12:00.
func TestAlarmDue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	// entry is a tick whose timer was set when the wall clock was fast by so much.
	entry := func(tick, fast float64) timer { return timer{tick: at(tick), fires: at(tick - fast)} }
	for what, row := range map[string]struct {
		set  []timer
		now  float64
		want float64 // -1: none
		left int
	}{
		"no timer":                             {nil, 7, -1, 0},
		"on time":                              {[]timer{entry(0, 0)}, 0, 0, 0},
		"on time, the next timer is set":       {[]timer{entry(0, 0), entry(1, 0)}, 0, 0, 1},
		"late":                                 {[]timer{entry(0, 0), entry(1, 0)}, 0.9, 0, 1},
		"so late that ticks were missed":       {[]timer{entry(0, 0), entry(1, 0), entry(2, 0), entry(3, 0)}, 2.5, 2, 1},
		"the previous alarm returned the tick": {[]timer{entry(3, 0)}, 2.5, -1, 1},
		"the wall clock was set back":          {[]timer{entry(60, 60), entry(61, 0)}, 0, 60, 1},
		"set back, and the alarm is late":      {[]timer{entry(60, 60), entry(61, 60), entry(62, 0)}, 1.5, 61, 1},
		"the monotonic clock has been still":   {[]timer{entry(0, -600), entry(600, 0)}, 599, 0, 1},
	} {
		a := &alarm{set: slices.Clone(row.set)}
		tick, ok := a.due(at(row.now))
		if ok != (row.want >= 0) || ok && !tick.Equal(at(row.want)) || len(a.set) != row.left {
			t.Errorf("%s: due = %v, %v with %d left; want %v min with %d", what, tick, ok, len(a.set), row.want, row.left)
		}
	}
}

func TestAlarmReturnsTicksAfterTheLastClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now()
		a := &alarm{schedule: parse(t, "0 0/10 * * * ?", time.UTC), after: midnight.Add(25 * time.Minute)}
		next := a.Next(midnight)
		for _, want := range []time.Duration{30 * time.Minute, 40 * time.Minute, 50 * time.Minute} {
			if got := next.Sub(midnight); got != want {
				t.Errorf("next tick after %v, want after %v", got, want)
			}
			next = a.Next(next)
		}
		if tick, ok := a.due(midnight.Add(30 * time.Minute)); !ok || tick != midnight.Add(30*time.Minute).UTC() {
			t.Errorf("due = %v, %v; want 00:30 in the zone of the schedule", tick, ok)
		}
	})
}

// After the clock jumps, gocron calls Next until it gets a tick in the future. It must not step through
// each second of a year.
func TestAlarmFollowsAClockJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &alarm{schedule: parse(t, "* * * * * ?", time.UTC), after: midnight}
		next := a.Next(midnight)
		time.Sleep(365*24*time.Hour + 500*time.Millisecond)
		now := time.Now()
		for next.Before(now) && len(a.set) < 100 {
			next = a.Next(next)
		}
		if got := next.Sub(now); got != 500*time.Millisecond || len(a.set) != 3 {
			t.Errorf("next tick after %v, %d timers; want after 500ms, and timers for the first, the latest and that tick", got, len(a.set))
		}
		want := now.Add(-500 * time.Millisecond).UTC()
		if tick, ok := a.due(now); !ok || tick != want || len(a.set) != 1 {
			t.Errorf("due = %v, %v with %d left; want %v with 1", tick, ok, len(a.set), want)
		}
	})
}

func TestAlarmOfAFinishedSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &alarm{schedule: parse(t, "@at 1999-12-31T00:00:00Z", time.UTC)}
		now := time.Now()
		if next := a.Next(now); next.Sub(now) < 50*365*24*time.Hour {
			t.Errorf("next = %v, want a time that never comes", next)
		}
		if tick, ok := a.due(now.Add(never)); ok {
			t.Errorf("due = %v, want none", tick)
		}
	})
}

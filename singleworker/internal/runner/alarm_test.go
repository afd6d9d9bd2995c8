package runner

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Ticks at 12:00, 12:01 and so on; clocks are given in minutes after 12:00.
func TestAlarmDue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }
	const soon = float64(early) / 2 / float64(time.Minute)
	// entry is a tick whose timer was set when the wall clock was fast by so much.
	entry := func(tick, fast float64) timer { return timer{tick: at(tick), comes: at(tick - fast)} }
	for what, row := range map[string]struct {
		set  []timer
		now  float64
		want float64 // -1: none
		left int
		in   float64
	}{
		"no timer":                             {nil, 7, -1, 0, 0},
		"on time":                              {[]timer{entry(0, 0)}, 0, 0, 0, 0},
		"on time, the next timer is set":       {[]timer{entry(0, 0), entry(1, 0)}, 0, 0, 1, 0},
		"late":                                 {[]timer{entry(0, 0), entry(1, 0)}, 0.9, 0, 1, 0},
		"so late that ticks were missed":       {[]timer{entry(0, 0), entry(1, 0), entry(2, 0), entry(3, 0)}, 2.5, 2, 1, 0},
		"the previous alarm returned the tick": {[]timer{entry(3, 0)}, 2.5, -1, 1, 0},
		"the wall clock was set back":          {[]timer{entry(60, 60), entry(61, 0)}, 0, 60, 1, 0},
		"set back, and the alarm is late":      {[]timer{entry(60, 60), entry(61, 60), entry(62, 0)}, 1.5, 61, 1, 0},
		"the monotonic clock has been still":   {[]timer{entry(0, -600), entry(600, 0)}, 599, 0, 1, 0},
		"early":                                {[]timer{entry(1, 0), entry(2, 0)}, 1 - soon, 1, 1, soon},
		"early, and the last alarm was late":   {[]timer{entry(1, 0), entry(2, 0)}, 2 - soon, 1, 1, 0},
		"early, the wall clock was set back":   {[]timer{entry(60, 60), entry(61, 0)}, -soon, 60, 1, soon},
		"early, the wall clock was set":        {[]timer{entry(1, -1)}, 1 - soon, 1, 0, soon},
		"too early":                            {[]timer{entry(1, 0)}, 1 - 3*soon, -1, 1, 0},
	} {
		a := &alarm{set: slices.Clone(row.set)}
		tick, in, ok := a.due(at(row.now))
		off := (in - time.Duration(row.in*float64(time.Minute))).Abs()
		if ok != (row.want >= 0) || ok && !tick.Equal(at(row.want)) || len(a.set) != row.left || off > time.Microsecond {
			t.Errorf("%s: due = %v in %v, %v with %d left; want %v min in %v min with %d",
				what, tick, in, ok, len(a.set), row.want, row.in, row.left)
		}
	}
}

func TestAlarmReturnsTicksToCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(25 * time.Minute)
		a := newAlarm(parse(t, "0 0/10 * * * ?", time.UTC), nil)
		next := a.Next(midnight)
		for _, want := range []time.Duration{30 * time.Minute, 40 * time.Minute, 50 * time.Minute} {
			if got := next.Sub(midnight); got != want-early {
				t.Errorf("the alarm goes off after %v, want %v before %v", got, early, want)
			}
			next = a.Next(next)
		}
		want := midnight.Add(30 * time.Minute).UTC()
		if tick, in, ok := a.due(want.Add(-early)); !ok || tick != want || in != early {
			t.Errorf("due = %v in %v, %v; want 00:30 in the zone of the schedule, in %v", tick, in, ok, early)
		}
	})
}

// Jobs with one schedule have one alarm, whichever of them comes or goes, and whatever the clock
// does. It ends with the last of them.
func TestJobsShareAnAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		const jobs = 5
		every, other := parse(t, "0 * * * * ?", time.UTC), parse(t, "0 * * * * ?", time.UTC)
		var mu sync.Mutex
		ran := make(map[string]int)
		name := func(k int) string { return "job" + strconv.Itoa(k) }
		for k := range jobs {
			j := w.job(name(k), "@manually", func(_ context.Context, r Run) error {
				mu.Lock()
				defer mu.Unlock()
				ran[r.Job]++
				return nil
			})
			if j.Schedule = every; k == 0 {
				j.Schedule = other
			}
			w.own(j)
		}
		alarms := func() (all [2]int) {
			done := make(chan struct{})
			w.runner.box.Post(func() {
				all = [2]int{len(w.runner.alarms.set), len(w.runner.alarms.scheduler.Jobs())}
				close(done)
			})
			<-done
			return all
		}
		pass(90 * time.Second)
		if got := alarms(); got != [2]int{2, 2} {
			t.Errorf("there are %d alarms, and %d of gocron; want 2 for two schedules", got[0], got[1])
		}
		w.runner.ClockStepped()
		w.runner.Disown(name(1))
		pass(time.Minute)
		w.runner.Disown(name(0))
		w.runner.Disown(name(jobs - 1))
		pass(time.Minute)
		if got := alarms(); got != [2]int{1, 1} {
			t.Errorf("there are %d alarms, and %d of gocron; want 1 for one schedule", got[0], got[1])
		}
		w.stop()
		if want := map[string]int{"job0": 2, "job1": 1, "job2": 3, "job3": 3, "job4": 2}; !maps.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
		if n := len(w.runner.alarms.set); n != 0 {
			t.Errorf("%d alarms are left", n)
		}
	})
}

// A job that is owned just before a tick has its first alarm at once. The alarm for the next tick
// is in the same second then, and gocron does not drop it.
func TestAlarmJustBeforeATick(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{early, atOnce + time.Nanosecond, atOnce, atOnce / 2, time.Nanosecond} {
		t.Run(before.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				time.Sleep(time.Second - before)
				var at []time.Duration
				w.own(w.job("job", "* * * * * ?", func(context.Context, Run) error {
					at = append(at, time.Since(midnight))
					return nil
				}))
				pass(before + 3500*time.Millisecond)
				w.stop()
				if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}; !slices.Equal(at, want) {
					t.Errorf("ran at %v, want %v", at, want)
				}
			})
		})
	}
}

// gocron drops an alarm that is past when it is about to set its timer. The next alarm makes up for
// it, and those that follow are not late.
func TestAlarmThatWasDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		var at []time.Duration
		w.own(w.job("job", "* * * * * ?", func(context.Context, Run) error {
			at = append(at, time.Since(midnight))
			return nil
		}))
		pass(1500 * time.Millisecond)
		w.runner.box.Post(func() { w.runner.jobs["job"].alarm.Next(time.Time{}) }) // for 3 s: 2 s is returned already
		pass(5 * time.Second)
		w.stop()
		late := 4*time.Second - early // the tick of 3 s, at the alarm for that of 4 s
		want := []time.Duration{time.Second, 2 * time.Second, late, 4 * time.Second, 5 * time.Second, 6 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("ran at %v, want %v", at, want)
		}
	})
}

// After the clock jumps, gocron calls Next until it gets a tick in the future. It must not step
// through each second of a year.
func TestAlarmFollowsAClockJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAlarm(parse(t, "* * * * * ?", time.UTC), nil)
		next := a.Next(midnight)
		time.Sleep(365*24*time.Hour + 500*time.Millisecond)
		now := time.Now()
		if latest := a.Next(next); latest.Sub(now) != atOnce {
			t.Errorf("the alarm for the latest tick goes off after %v, want %v", latest.Sub(now), atOnce)
		}
		next = a.Next(next)
		if got := next.Sub(now); got != 500*time.Millisecond-early || len(a.set) != 3 {
			t.Errorf("next alarm after %v, %d timers; want 500ms less %v, and timers for the first, the latest and that tick",
				got, len(a.set), early)
		}
		want := now.Add(-500 * time.Millisecond).UTC()
		if tick, in, ok := a.due(now); !ok || tick != want || in != 0 || len(a.set) != 1 {
			t.Errorf("due = %v in %v, %v with %d left; want %v at once with 1", tick, in, ok, len(a.set), want)
		}
	})
}

func TestAlarmOfAFinishedSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAlarm(parse(t, "@at 1999-12-31T00:00:00Z", time.UTC), nil)
		now := time.Now()
		if next := a.Next(now); next.Sub(now) < 50*365*24*time.Hour {
			t.Errorf("next = %v, want a time that never comes", next)
		}
		if tick, _, ok := a.due(now.Add(never)); ok {
			t.Errorf("due = %v, want none", tick)
		}
	})
}

// An alarm goes off early, and the run begins on the tick, whenever the job was owned: each tick
// once, by the schedule that the job has when it comes.
func TestRunsBeginOnTheTick(t *testing.T) {
	t.Parallel()
	for _, before := range []time.Duration{time.Minute, 2 * early, early + time.Nanosecond, early, early / 2, time.Nanosecond} {
		t.Run(before.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				var mu sync.Mutex
				at := make(map[string][]time.Duration)
				job := func(name string) Job {
					return w.job(name, "0 * * * * ?", func(context.Context, Run) error {
						mu.Lock()
						defer mu.Unlock()
						at[name] = append(at[name], time.Since(midnight))
						return nil
					})
				}
				time.Sleep(time.Minute - before)
				w.own(job("a"))
				again, later, never, lost := job("owned again"), job("of another schedule"), job("at new year"), job("job")
				w.own(again)
				w.own(later)
				w.own(never)
				w.own(lost)
				synctest.Wait()
				time.Sleep(before / 2)
				w.own(again)
				w.own(withSchedule(t, later, "30 * * * * ?"))
				w.own(withSchedule(t, never, "@yearly"))
				w.lose()
				pass(before - before/2 + 40*time.Second)
				want := map[string][]time.Duration{
					"a": {time.Minute}, "owned again": {time.Minute}, "of another schedule": {90 * time.Second},
				}
				if !reflect.DeepEqual(at, want) {
					t.Errorf("ran at %v, want %v", at, want)
				}
				if n := len(w.runner.alarms.coming); n != 0 {
					t.Errorf("%d ticks are still expected", n)
				}
				if last := w.runner.jobs["at new year"].lastDue; last != 0 {
					t.Errorf("the replaced schedule's tick %v is taken for one of the new schedule", last)
				}
				w.stop()
			})
		})
	}
}

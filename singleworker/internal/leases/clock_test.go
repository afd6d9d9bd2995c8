package leases

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// A lease must never last longer than others believe: the faster of two clocks counts.
func TestProgress(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for what, row := range map[string]struct{ mono, wall, want time.Duration }{
		"both clocks run evenly":              {3 * s, 3 * s, 3 * s},
		"nothing happened":                    {0, 0, 0},
		"the machine was suspended":           {1 * s, 3600 * s, 3600 * s},
		"the wall clock was set forward":      {1 * s, 61 * s, 61 * s},
		"the wall clock was set back":         {1 * s, -3600 * s, 1 * s},
		"both went back, which is impossible": {-1 * s, -1 * s, 0},
		"the wall clock is slewed slightly":   {1 * s, 1*s - 1, 1 * s},
	} {
		if got := progress(row.mono, row.wall); got != row.want {
			t.Errorf("%s: progress(%v, %v) = %v, want %v", what, row.mono, row.wall, got, row.want)
		}
	}
}

func TestClockBeginsAtZeroAndRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // before it was started
		clock := NewClock()
		var total time.Duration
		for _, step := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour} {
			time.Sleep(step)
			total += step
			if got, want := clock.Now(), (lease.Instant{Mono: total, Elapsed: total}); got != want {
				t.Errorf("after %v: %+v, want %+v", step, got, want)
			}
		}
	})
}

// Timers are set by the wall clock but run on the monotonic one. OnStep is called once when the two
// have drifted apart, also if they did so gradually.
func TestStepOfTheWallClock(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	table, told := NewTable(NewClock()), 0
	table.OnStep = func() { told++ }
	for i, row := range []struct {
		ahead time.Duration
		want  int
	}{
		{0, 0}, {60 * ms, 0}, {-60 * ms, 0}, {100 * ms, 0}, // below maxDrift
		{101 * ms, 1}, {101 * ms, 1}, {150 * ms, 1}, // adjusted gradually
		{time.Hour, 2}, {time.Hour + ms, 2}, // set forward, or suspended
		{-time.Hour, 3}, {-time.Hour, 3}, {0, 4}, // set back, and right again
	} {
		if table.compare(row.ahead); told != row.want {
			t.Errorf("%d: %d calls when the wall clock is %v ahead, want %d", i, told, row.ahead, row.want)
		}
	}
}

// In a synctest bubble both clocks are the same.
func TestOnStepIsNotCalledWithoutAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // before it was started
		table := NewTable(NewClock())
		table.OnStep = func() { t.Error("OnStep was called") }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := table.Watch(ctx); err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

// suspendable returns a clock, and a function that lets the wall clock leap, as it does while a
// machine is suspended.
func suspendable() (clock *Clock, leap func(time.Duration)) {
	clock = NewClock()
	var leapt atomic.Int64
	read := clock.read
	clock.read = func() reading {
		r := read()
		r.wall += time.Duration(leapt.Load())
		return r
	}
	return clock, func(d time.Duration) { leapt.Add(int64(d)) }
}

func TestSuspensionCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, leap := suspendable()
		for _, step := range []struct{ passes, leaps, elapsed, ahead time.Duration }{
			{time.Second, 0, time.Second, 0},
			{time.Second, time.Hour, time.Hour + 2*time.Second, time.Hour},
			{time.Second, -time.Hour, time.Hour + 3*time.Second, 0},
			{time.Second, -time.Minute, time.Hour + 4*time.Second, -time.Minute},
		} {
			time.Sleep(step.passes)
			leap(step.leaps)
			if now := clock.Now(); now.Elapsed != step.elapsed || clock.ahead() != step.ahead {
				t.Errorf("after %v, and a leap of %v: %v have elapsed, the wall clock is %v ahead; want %v and %v",
					step.passes, step.leaps, now.Elapsed, clock.ahead(), step.elapsed, step.ahead)
			}
		}
	})
}

// A suspension is noticed within a second although the end of no lease is near.
func TestWatchNoticesASuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, leap := suspendable()
		table, told := NewTable(clock), make(chan struct{}, 10)
		table.OnStep = func() { told <- struct{}{} }
		watching, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = table.Watch(watching) }()
		ctx, done, err := table.Open("job", 1, time.Hour).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		time.Sleep(time.Minute)
		leap(time.Hour)
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("a second after the suspension the run's context has ended because of %v, want ErrLost", context.Cause(ctx))
		}
		if len(told) != 1 {
			t.Errorf("%d calls of OnStep a second after the suspension, want one", len(told))
		}
	})
}

// A job that runs each second for years under one lease must not collect its runs.
func TestFinishedRunsLeaveNothing(t *testing.T) {
	t.Parallel()
	table := NewTable(NewClock())
	l := table.Open("job", 1, time.Hour)
	for range 3 {
		ctx, done, err := l.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done()
		if ctx.Err() == nil {
			t.Error("the context of a finished run has not ended")
		}
	}
	if len(l.runs) > 0 || len(table.running) > 0 {
		t.Errorf("%d runs are kept, and %d leases are looked at, want none", len(l.runs), len(table.running))
	}
}

// Timers rest on the clocks as they were, so a step is noticed within a second, also when there is
// no lease.
func TestStepIsNoticedWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, leap := suspendable()
		table := NewTable(clock)
		var noticed time.Time
		table.OnStep = func() { noticed = time.Now() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var stepped time.Time
		time.AfterFunc(20500*time.Millisecond, func() {
			stepped = time.Now()
			leap(time.Hour)
		})
		if err := table.Watch(ctx); err != nil {
			t.Errorf("Watch = %v", err)
		}
		if late := noticed.Sub(stepped); late < 0 || late > time.Second {
			t.Errorf("noticed after %v, want it within a second", late)
		}
	})
}

// After a leap of the clock nothing begins under a lease that is over by it, and runs in progress
// continue until ZooKeeper is asked: no longer than 250 ms, not beyond the end of the lease by the
// monotonic clock, and not if the clock leaps again.
func TestLeap(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for what, tt := range map[string]struct {
		before time.Duration // of the lease's 10 s, when the clock leaps
		by     time.Duration // 0: an hour
		do     func(table *Table, leap func(time.Duration))
		ends   time.Duration // since the leap; 0: it continues
	}{
		"nobody answers":                       {3500 * ms, 0, nil, 250 * ms},
		"its lease is about to end":            {9900 * ms, 0, nil, 100 * ms},
		"it lasts longer than the leap":        {3500 * ms, 5 * time.Second, nil, 1500 * ms},
		"it lasts hardly longer than the leap": {3500 * ms, 6450 * ms, nil, 250 * ms},
		"the answer comes":                     {3500 * ms, 0, func(table *Table, _ func(time.Duration)) { table.Renew("job", 2*time.Hour) }, 0},
		"the answer to what was sent before":   {3500 * ms, 0, func(table *Table, _ func(time.Duration)) { table.Renew("job", 12*time.Second) }, 250 * ms},
		"the clock leaps again": {3500 * ms, 0, func(table *Table, leap func(time.Duration)) {
			table.clock.Now()
			time.Sleep(100 * ms)
			leap(10 * time.Second)
			table.clock.Now()
		}, 100 * ms},
		"the session ends":       {3500 * ms, 0, func(table *Table, _ func(time.Duration)) { table.Lapse() }, 1},
		"the slot is taken away": {3500 * ms, 0, func(table *Table, _ func(time.Duration)) { table.Close("job", ErrLost) }, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock, leap := suspendable()
				table := NewTable(clock)
				watching, stop := context.WithCancel(t.Context())
				defer stop()
				var asked atomic.Bool
				table.OnStep = func() { asked.Store(true) }
				go func() { _ = table.Watch(watching) }()
				l := table.Open("job", 1, 10*time.Second)
				ctx, done, err := l.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer done()
				time.Sleep(tt.before)
				at := time.Now()
				var ended atomic.Int64
				context.AfterFunc(ctx, func() { ended.Store(max(1, int64(time.Since(at)))) })
				leap(cmp.Or(tt.by, time.Hour))
				if err := l.Err(); tt.by == 0 && !errors.Is(err, ErrLost) { // which notices the leap
					t.Errorf("what begins after the leap: %v, want %v", err, ErrLost)
				}
				synctest.Wait()
				if tt.ends < time.Second && (!asked.Load() || ctx.Err() != nil) {
					t.Errorf("asked at once: %v, with the run: %v", asked.Load(), ctx.Err())
				}
				if tt.do != nil {
					tt.do(table, leap)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if got := time.Duration(ended.Load()); got != tt.ends {
					t.Errorf("the run ends %v after the leap, want %v", got, tt.ends)
				}
				if err := l.Err(); (err == nil) != (tt.ends == 0) {
					t.Errorf("what begins then: %v", err)
				}
			})
		})
	}
}

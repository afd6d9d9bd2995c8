package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// A bubble's clock begins at midnight, 2000-01-01, UTC.

func TestTicksFireAtTheirTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(1234 * time.Millisecond) // do not start exactly at a tick
		w.run(t.Context())
		w.own(w.job("job", "0/20 * * * * ?", nil))
		pass(time.Minute)
		w.stop()
		w.wantOnTime(after(20*time.Second), after(40*time.Second), after(60*time.Second))

		opened := w.keeper.opened("job")
		c := opened[0]
		if c.SID != "a" || c.Token != 7 || c.Attempt != 1 || c.RunID == "" || c.RunID == opened[1].RunID {
			t.Errorf("claim %+v, want the first attempt by a under token 7 with a unique run ID", c)
		}
		if r := w.started()[0]; r.RunID != c.RunID || r.Tick.UnixMilli() != c.Tick || r.Token != 7 || r.Attempt != 1 || r.Request != nil {
			t.Errorf("claimed %+v, started %+v; want the same", c, r)
		}
	})
}

func TestEveryIsAnchoredAtTheEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(1200 * time.Millisecond)
		w.run(t.Context())
		w.own(w.job("job", "@every 1500ms", nil))
		pass(5 * time.Second)
		w.stop()
		var want []time.Time
		for i := range 4 {
			want = append(want, after(time.Duration(i+1)*1500*time.Millisecond))
		}
		w.wantOnTime(want...)
	})
}

// After its only tick an @at job must not keep gocron busy: that would keep
// this year from passing.
func TestAtFiresOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "@at 2000-01-01T06:00:00Z", nil))
		w.own(w.job("over", "@at 1999-01-01T06:00:00Z", nil))
		pass(365 * 24 * time.Hour)
		w.stop()
		w.wantOnTime(after(6 * time.Hour))
	})
}

func TestOneDayOfFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 */5 * * * ?", nil))
		pass(24 * time.Hour)
		w.stop()
		var want []time.Time
		for i := range 288 {
			want = append(want, after(time.Duration(i+1)*5*time.Minute))
		}
		w.wantOnTime(want...)
	})
}

// gocron treats daylight saving differently; package cronexpr decides.
func TestDaysOnWhichClocksChange(t *testing.T) {
	t.Parallel()
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		schedule string
		from     string // for six hours
		want     []string
	}{
		{"0 30 * * * ?", "2026-11-01T03:45:00Z", []string{ // 01:30 comes twice
			"00:30 EDT", "01:30 EDT", "01:30 EST", "02:30 EST", "03:30 EST", "04:30 EST",
		}},
		{"@hourly", "2026-11-01T04:30:00Z", []string{
			"01:00 EDT", "01:00 EST", "02:00 EST", "03:00 EST", "04:00 EST", "05:00 EST",
		}},
		{"0 30 1 * * ?", "2026-11-01T03:45:00Z", []string{"01:30 EDT"}},
		{"0 30 2 * * ?", "2026-03-08T04:45:00Z", []string{"03:00 EDT"}}, // there is no 02:30
		{"0 30 * * * ?", "2026-03-08T04:45:00Z", []string{
			"00:30 EST", "01:30 EST", "03:30 EDT", "04:30 EDT", "05:30 EDT", "06:30 EDT",
		}},
	} {
		t.Run(row.schedule+" from "+row.from, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				from, err := time.Parse(time.RFC3339, row.from)
				if err != nil {
					t.Fatal(err)
				}
				var want []time.Time
				for _, text := range row.want {
					at, err := time.ParseInLocation("2006-01-02 15:04 MST", row.from[:len("2006-01-02")]+" "+text, newYork)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, at)
				}
				time.Sleep(time.Until(from))
				w.run(t.Context())
				job := w.job("job", "@yearly", nil)
				job.Schedule = parse(t, row.schedule, newYork)
				w.own(job)
				pass(6 * time.Hour)
				w.stop()
				w.wantOnTime(want...)
				if ticks, _ := w.ticks(); len(ticks) > 0 && ticks[0].Location() != newYork {
					t.Errorf("the tick is in %v, want the job's own zone", ticks[0].Location())
				}
			})
		})
	}
}

// The machine's time zone must not matter. The next tick shows the second of the day that
// this machine's clock shows when the job is adopted.
func TestTheMachinesOwnZoneDoesNotMatter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		time.Sleep(2*time.Hour + 500*time.Millisecond)
		w.run(t.Context())
		now := time.Now()
		_, offset := now.Zone()
		job := w.job("job", "@yearly", nil)
		job.Schedule = parse(t, now.Format("5 4 15 * * ?"), time.FixedZone("eight hours behind", offset-8*3600))
		w.own(job)
		pass(12 * time.Hour)
		w.stop()
		w.wantOnTime(now.Add(8*time.Hour - 500*time.Millisecond))
	})
}

func TestOwnTwiceReplaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ran []string
		handler := func(name string) func(context.Context, Run) error {
			return func(context.Context, Run) error {
				ran = append(ran, name)
				return nil
			}
		}
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", handler("old")))
		time.Sleep(90 * time.Second)
		w.own(w.job("job", "0 0/5 * * * ?", handler("new")))
		pass(10 * time.Minute)
		w.stop()
		w.wantOnTime(after(time.Minute), after(5*time.Minute), after(10*time.Minute))
		if len(ran) != 3 || ran[0] != "old" || ran[1] != "new" {
			t.Errorf("ran %v, want old once, then new", ran)
		}
	})
}

// The runner keeps its record when Own is called again for the same lease with an older one, as
// read earlier.
func TestOwnTwiceKeepsTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.change("job", func(k *kept) { k.record.Watermark = after(3 * time.Minute).UnixMilli() }) // by a fast clock
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.From.Watermark < after(3*time.Minute).UnixMilli() {
				t.Errorf("a decision based on %+v", c.From)
			}
			return lever{}
		}
		w.run(t.Context())
		job := w.job("job", "0 * * * * ?", nil)
		w.own(job)
		old := *job.Record
		old.Watermark = after(time.Minute).UnixMilli()
		job.Record = &old
		w.own(job)
		pass(4 * time.Minute)
		w.stop()
		w.wantOnTime(after(4 * time.Minute))
	})
}

// A new ownership comes with a record. If that is outdated, the first decision finds out.
func TestOldRecordRunsNoTickTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		old := w.job("job", "0 * * * * ?", nil).Record
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(130 * time.Second)
		job := w.job("job", "0 * * * * ?", nil)
		job.Job.Since = midnight
		job.Record = old
		w.own(job)
		pass(time.Minute)
		w.stop()
		w.wantOnTime(after(time.Minute), after(2*time.Minute), after(3*time.Minute))
	})
}

func TestDisownStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", nil))
		w.own(w.job("kept", "0 30 * * * ?", nil))
		time.Sleep(90 * time.Second)
		w.runner.Disown("job")
		w.runner.Disown("never owned")
		pass(time.Hour)
		w.stop()
		w.wantOnTime(after(time.Minute), after(30*time.Minute))
	})
}

func TestDisownLeavesTheRunToItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		canceled := errors.New("job canceled")
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", untilEnd))
		time.Sleep(61 * time.Second)
		w.runner.Disown("job")
		time.Sleep(time.Hour)
		if got := w.reported(); len(got) != 0 {
			t.Errorf("the run ended with its job: %+v", got)
		}
		w.leases.Close("job", canceled)
		w.stop()
		w.wantResult(history.StateInterrupted, canceled)
	})
}

func TestClaimedTicksAreNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.keeper.change("job", func(k *kept) { k.record.Watermark = after(3 * time.Minute).UnixMilli() }) // by a fast clock
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(5 * time.Minute)
		w.stop()
		w.wantOnTime(after(4*time.Minute), after(5*time.Minute))
	})
}

package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// withSchedule returns j with a schedule that replaces its own now.
func withSchedule(t *testing.T, j Job, schedule string) Job {
	t.Helper()
	return withSpec(j, func(of *ticks.Job) {
		of.Former = []ticks.Former{{Schedule: of.Schedule, Since: of.Since}}
		of.Schedule, of.Since = parse(t, schedule, time.UTC), time.Now()
	})
}

// A new spec applies to the alarm at once, and not to the run in progress.
func TestSpecChangesDuringARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		var ran []string
		handler := func(name string, took time.Duration) func(context.Context, Run) error {
			return func(ctx context.Context, _ Run) error {
				time.Sleep(took)
				ran = append(ran, name)
				return ctx.Err()
			}
		}
		old := w.job("job", "0 * * * * ?", handler("old", 70*time.Second))
		w.own(old)
		pass(90 * time.Second)
		changed := withSchedule(t, old, "30 * * * * ?")
		changed.Handle, changed.Record = handler("new", 0), new(ticks.Record) // as it was at adoption
		w.own(changed)
		pass(2 * time.Minute)
		if n := len(w.runner.alarms.scheduler.Jobs()); n != 1 {
			t.Errorf("%d alarms are set, want one", n)
		}
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: ok", "2m30s at 2m30s: ok", "3m30s at 3m30s: ok")
		if got := strings.Join(ran, " "); got != "old new new" {
			t.Errorf("ran %s, want old new new", got)
		}
	})
}

// Ticks that waited for the end of a run are not forgotten when their schedule is replaced
// meanwhile.
func TestScheduleChangesWhileTicksWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		took := 250 * time.Second
		old := withPolicy(w.job("job", "0 * * * * ?", func(context.Context, Run) error {
			time.Sleep(took)
			took = 0
			return nil
		}), ticks.Policy{Overlap: "queue"})
		w.own(old)
		pass(210 * time.Second)
		changed := withSchedule(t, withPolicy(old, ticks.Policy{}), "30 * * * * ?")
		w.own(changed)
		pass(2 * time.Minute)
		w.stop()
		w.wantHistory("job", "2m0s to 3m0s: 2 missed schedule_changed", "4m30s: skipped overlap", "1m0s at 1m0s: ok",
			"5m30s at 5m30s: ok")
	})
}

// A changed policy applies to later decisions; the run in progress is judged by the policy it
// started with.
func TestPolicyChangesDuringARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		n := 0
		job := withPolicy(w.job("job", "0 1 * * * ?", func(context.Context, Run) error {
			n++
			time.Sleep(10 * time.Second)
			if n == 1 {
				return errors.New("boom")
			}
			return nil
		}), ticks.Policy{Retries: 1, Backoff: 5 * time.Second})
		w.own(job)
		pass(65 * time.Second)
		w.own(withPolicy(job, ticks.Policy{}))
		pass(time.Minute)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: failed", "1m0s at 1m15s: ok, attempt 2")
	})
}

// The record changes while the result is being written; the commit is computed again.
func TestConflictWithAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var tries atomic.Int32
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Token == 0 && tries.Add(1) == 1 {
				return lever{delay: 90 * time.Second} // the ticks at 2 and 3 minutes are skipped meanwhile
			}
			return lever{}
		}
		w.run(t.Context())
		w.adopt(ticks.Policy{}, working(50*time.Second))
		pass(205 * time.Second)
		w.stop()
		w.wantHistory("job", "2m0s: skipped overlap", "3m0s: skipped overlap", "1m0s at 1m0s: ok")
		r := w.wantResult(history.StateOK, nil)
		if r.Ended.Sub(midnight) != 110*time.Second || tries.Load() != 2 {
			t.Errorf("ended at %v after %d tries, want when the handler did, at the second", r.Ended, tries.Load())
		}
		if through := w.keeper.read("job").record.Watermark; through != after(3*time.Minute).UnixMilli() {
			t.Errorf("Watermark is %v", time.UnixMilli(through).UTC())
		}
	})
}

func TestConflictWithAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tries := 0
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Plan.Opens {
				tries++
			}
			return lever{conflict: tries == 1}
		}
		w.run(t.Context())
		w.adopt(ticks.Policy{}, nil)
		pass(70 * time.Second)
		w.stop()
		w.wantOnTime(after(time.Minute))
		w.wantHistory("job", "1m0s at 1m0s: ok")
		if len(w.refused) != 1 || !errors.Is(w.refused[0], ticks.ErrConflict) {
			t.Errorf("claims told to be refused: %v, want one conflict", w.refused)
		}
	})
}

// giveUp leaves a run in progress in w while another instance takes the job over and runs the tick
// again. It returns a function that lets the first run succeed.
func (w *world) giveUp(p ticks.Policy) (release func(), other *world) {
	w.run(w.t.Context())
	done := make(chan struct{})
	w.adopt(p, func(context.Context, Run) error {
		<-done
		return nil
	})
	pass(65 * time.Second)
	w.lose()
	other = w.keeper.world("b", 8)
	other.run(w.t.Context())
	other.adopt(p, nil)
	pass(5 * time.Second)
	return func() { close(done) }, other
}

// A late result of a run that was given up is recorded in the history, and nothing
// else changes.
func TestResultOfARunThatWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release, other := w.giveUp(ticks.Policy{})
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 1m5s: ok, attempt 2")
		record := w.keeper.read("job").record
		release()
		synctest.Wait()
		w.wantHistory("job", "1m0s at 1m0s: ok", "1m0s at 1m5s: ok, attempt 2")
		if got := w.keeper.read("job").record; got != record {
			t.Errorf("record %+v, want %+v as before", got, record)
		}
		w.wantResult(history.StateOK, nil)
		w.stop()
		other.stop()
	})
}

func TestResultThatCannotBeAmended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.amend = errSuperseded
		release, other := w.giveUp(ticks.Policy{Interrupted: "skip"})
		w.wantHistory("job", "1m0s at 1m0s: lost")
		release()
		synctest.Wait()
		if r := w.reported(); len(r) != 1 || r[0].State != history.StateOK || !errors.Is(r[0].Unrecorded, errSuperseded) {
			t.Errorf("reported %+v, want the result and why it was not recorded", r)
		}
		if text := w.log.String(); !strings.Contains(text, "run result not recorded") || !strings.Contains(text, errSuperseded.Error()) {
			t.Errorf("log %q, want the result reported as not recorded", text)
		}
		w.stop()
		other.stop()
	})
}

// The instance owns the job again when its earlier run, which it has given up itself, ends.
func TestResultOfARunThatWasGivenUpByTheSameInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release, other := w.giveUp(ticks.Policy{})
		other.lose()
		w.adopt(ticks.Policy{}, nil)
		pass(time.Minute) // a tick comes; it does not run beside the former
		release()
		pass(time.Minute)
		w.stop()
		other.stop()
		// The tick at two minutes is late: it was not the last run in the record that it had to wait for.
		w.wantHistory("job", "1m0s at 1m0s: ok", "1m0s at 1m5s: ok, attempt 2", "2m0s at 2m10s: ok", "3m0s at 3m0s: ok")
	})
}

// Nothing can be written while the lease has lapsed; it is written after the lease was renewed.
func TestLeaseLapsesAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.adopt(ticks.Policy{}, nil)
		pass(59 * time.Second)
		w.leases.Lapse()
		pass(6500 * time.Millisecond)
		w.wantHistory("job")
		w.leases.Renew("job", 1<<62)
		pass(5 * time.Second)
		w.wantHistory("job", "1m0s at 1m6s: ok")
		pass(time.Minute)
		w.stop()
		w.wantHistory("job", "1m0s at 1m6s: ok", "2m0s at 2m0s: ok")
	})
}

// A run that is interrupted because the lease lapsed is run again after the lease was renewed.
func TestLeaseLapsesDuringARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.adopt(ticks.Policy{}, func(ctx context.Context, r Run) error {
			if r.Attempt > 1 {
				return nil
			}
			return untilEnd(ctx, r)
		})
		pass(65 * time.Second)
		w.leases.Lapse()
		pass(5500 * time.Millisecond)
		w.wantHistory("job", "1m0s at 1m0s: interrupted")
		w.leases.Renew("job", 1<<62)
		pass(10 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 1m11s: ok, attempt 2")
	})
}

// A claim was written but reported as failed: the run never started, and is not lost.
func TestClaimThatIsWrittenAndReportedAsFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := true
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Plan.Opens && first {
				first = false
				return lever{after: errors.New("no longer part of the group")}
			}
			return lever{}
		}
		w.run(t.Context())
		w.adopt(ticks.Policy{}, nil)
		pass(70 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 1m1s: ok, attempt 2")
		if ticks, _ := w.ticks(); len(ticks) != 1 {
			t.Errorf("the handler was called %d times, want once", len(ticks))
		}
	})
}

// The same for a result: it is recorded, and its tick is not run again.
func TestResultThatIsWrittenAndReportedAsFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gone := errors.New("no longer part of the group")
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Token == 0 {
				return lever{after: gone}
			}
			return lever{}
		}
		w.run(t.Context())
		w.adopt(ticks.Policy{}, nil)
		pass(70 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: ok")
		if r := w.reported(); len(r) != 1 || !errors.Is(r[0].Unrecorded, gone) {
			t.Errorf("reported %+v, want one that is unrecorded", r)
		}
	})
}

// The wall clock was fast when the timer was set and has been set back since: the timer fires
// before the wall clock reaches the tick, and the tick runs once. A retry waits by the corrected
// clock.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		var at []time.Duration
		w.own(withPolicy(w.job("job", "0 0/2 * * * ?", func(context.Context, Run) error {
			at = append(at, time.Since(midnight))
			if len(at) == 1 {
				return errors.New("boom")
			}
			return nil
		}), ticks.Policy{Retries: 1, Backoff: 10 * time.Second}))
		pass(30 * time.Second)
		w.runner.box.Post(func() {
			j := w.runner.jobs["job"]
			j.alarm.mu.Lock()
			j.alarm.set = []timer{{tick: after(2 * time.Minute), comes: time.Now()}}
			j.alarm.mu.Unlock()
			w.runner.alarms.due(j.alarm)
		})
		pass(4 * time.Minute)
		w.stop()
		w.wantHistory("job", "2m0s at 2m0s: failed", "2m0s at 40s: ok, attempt 2", "4m0s at 4m0s: ok")
		if want := []time.Duration{30 * time.Second, 40 * time.Second, 4 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("ran at %v, want %v", at, want)
		}
	})
}

// The wall clock was set or the machine suspended: timers that were set before would fire at the
// wrong time. New timers do not, and runs in progress are not affected.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		fails := 1
		w.own(withPolicy(w.job("job", "0 0/2 * * * ?", func(context.Context, Run) error {
			time.Sleep(10 * time.Second)
			if fails--; fails >= 0 {
				return errors.New("boom")
			}
			return nil
		}), ticks.Policy{Retries: 1, Backoff: 20 * time.Second}))
		w.own(w.job("other", "0 0/2 * * * ?", nil))
		step := func(late time.Duration) {
			w.runner.box.Post(func() {
				for _, j := range w.runner.jobs { // its timers fire late
					j.alarm.mu.Lock()
					j.alarm.set = nil
					j.alarm.mu.Unlock()
					w.runner.wakeAt(j, time.Now().Add(late), func() { t.Error("a timer that should have been stopped") })
				}
			})
			w.runner.ClockStepped()
		}
		for _, at := range []time.Duration{
			60 * time.Second,  // nothing runs
			125 * time.Second, // the run is in progress
			140 * time.Second, // its retry waits
		} {
			time.Sleep(time.Until(after(at)))
			step(time.Minute)
		}
		pass(110 * time.Second)
		if n := len(w.runner.alarms.scheduler.Jobs()); n != 2 {
			t.Errorf("%d alarms are set, want two", n)
		}
		w.stop()
		w.wantHistory("job", "2m0s at 2m0s: failed", "2m0s at 2m30s: ok, attempt 2", "4m0s at 4m0s: ok")
		w.wantHistory("other", "2m0s at 2m0s: ok", "4m0s at 4m0s: ok")
	})
}

func TestFarFutureIsLogged(t *testing.T) {
	t.Parallel()
	test := func(ahead time.Duration, want bool, change func(w *world, record ticks.Record)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			change(w, ticks.Record{Watermark: after(ahead).UnixMilli()})
			pass(time.Second)
			w.stop()
			if got := strings.Contains(w.log.String(), "last claimed tick is in the future"); got != want {
				t.Errorf("%v ahead: log %q, want the error logged: %v", ahead, w.log.String(), want)
			}
		})
	}
	for ahead, want := range map[time.Duration]bool{50 * time.Second: false, time.Hour: true} {
		test(ahead, want, func(w *world, record ticks.Record) {
			w.keeper.change("job", func(k *kept) { k.record = record })
			w.run(w.t.Context())
			w.adopt(ticks.Policy{}, nil)
		})
		test(ahead, want, func(w *world, record ticks.Record) { // while the job is owned
			w.run(w.t.Context())
			w.adopt(ticks.Policy{}, nil)
			w.runner.box.Post(func() {
				w.runner.committed(w.runner.jobs["job"], &ticks.Commit{}, nil, &record, ticks.ErrConflict)
			})
		})
	}
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// adopt makes w own a job that ticks every minute since midnight.
func (w *world) adopt(p ticks.Policy, handle func(context.Context, Run) error) {
	w.t.Helper()
	j := withPolicy(w.job("job", "0 * * * * ?", handle), p)
	j.Job.Since = midnight
	w.own(j)
}

// The job had no owner for five and a half minutes.
func TestMisfireAtAdoption(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		policy ticks.Policy
		at     time.Duration
		want   []string
	}{
		"once": {ticks.Policy{}, 330 * time.Second, []string{
			"1m0s to 4m0s: 4 missed no_owner", "5m0s at 5m30s: ok", "6m0s at 6m0s: ok",
		}},
		"skip": {ticks.Policy{Misfire: "skip"}, 330 * time.Second, []string{
			"1m0s to 5m0s: 5 missed no_owner", "6m0s at 6m0s: ok",
		}},
		"all": {ticks.Policy{Misfire: "all"}, 330 * time.Second, []string{
			"1m0s at 5m30s: ok", "2m0s at 5m30s: ok", "3m0s at 5m30s: ok", "4m0s at 5m30s: ok", "5m0s at 5m30s: ok",
			"6m0s at 6m0s: ok",
		}},
		"all that are not too old": {
			ticks.Policy{Misfire: "all", MisfireGrace: 3 * time.Minute}, 330 * time.Second, []string{
				"1m0s to 2m0s: 2 missed no_owner", "3m0s at 5m30s: ok", "4m0s at 5m30s: ok", "5m0s at 5m30s: ok",
				"6m0s at 6m0s: ok",
			},
		},
		"once, and it is too old": {
			ticks.Policy{MisfireGrace: 10 * time.Second}, 330 * time.Second, []string{
				"1m0s to 5m0s: 5 missed no_owner", "6m0s at 6m0s: ok",
			},
		},
		"skip, within a second after a handover": {
			ticks.Policy{Misfire: "skip"}, 300*time.Second + 800*time.Millisecond, []string{
				"1m0s to 4m0s: 4 missed no_owner", "5m0s at 5m0.8s: ok", "6m0s at 6m0s: ok",
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				time.Sleep(row.at)
				w.adopt(row.policy, nil)
				time.Sleep(time.Until(after(370 * time.Second)))
				w.stop()
				w.wantHistory("job", row.want...)
			})
		})
	}
}

// abandon leaves a run of the tick of 00:01 open in the records, as if its owner had died in the
// given attempt.
func (k *keeper) abandon(attempt int) {
	k.change("job", func(j *kept) {
		tick := after(time.Minute).UnixMilli()
		for n := range attempt {
			j.record = ticks.Record{Watermark: tick, Run: zkrec.Run{
				Tick: tick, RunID: "theirs", SID: "b", Token: 3, Attempt: n + 1, Started: tick, State: history.StateRunning,
			}}.Normal()
			if n+1 < attempt {
				e := ticks.Entry{Run: j.record.Run}
				e.State, e.Ended = history.StateInterrupted, tick
				j.history = append(j.history, e)
			}
		}
	})
}

func TestAbandonedRun(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		attempt int
		policy  ticks.Policy
		want    []string
	}{
		"is run again": {1, ticks.Policy{}, []string{
			"1m0s at 1m0s: interrupted", "1m0s at 1m30s: ok, attempt 2", "2m0s at 2m0s: ok",
		}},
		"is not run again": {1, ticks.Policy{Interrupted: "skip"}, []string{
			"1m0s at 1m0s: lost", "2m0s at 2m0s: ok",
		}},
		"is run a third time": {2, ticks.Policy{}, []string{
			"1m0s at 1m0s: interrupted", "1m0s at 1m0s: interrupted, attempt 2", "1m0s at 1m30s: ok, attempt 3",
			"2m0s at 2m0s: ok",
		}},
		"is not run forever": {3, ticks.Policy{}, []string{
			"1m0s at 1m0s: interrupted", "1m0s at 1m0s: interrupted, attempt 2", "1m0s at 1m0s: lost, attempt 3",
			"2m0s at 2m0s: ok",
		}},
		"is run as often as the policy says": {3, ticks.Policy{MaxAttempts: 4}, []string{
			"1m0s at 1m0s: interrupted", "1m0s at 1m0s: interrupted, attempt 2", "1m0s at 1m0s: interrupted, attempt 3",
			"1m0s at 1m30s: ok, attempt 4", "2m0s at 2m0s: ok",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.keeper.abandon(row.attempt)
				w.run(t.Context())
				time.Sleep(90 * time.Second)
				w.adopt(row.policy, nil)
				pass(time.Minute)
				w.stop()
				w.wantHistory("job", row.want...)
			})
		})
	}
}

// The next owner runs at once a run that a stop has interrupted.
func TestInterruptedRunIsRunByTheNextOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.adopt(ticks.Policy{}, untilEnd)
		pass(65 * time.Second)
		w.stop()
		other := w.keeper.world("b", 8)
		other.run(t.Context())
		var got Run
		other.adopt(ticks.Policy{}, func(_ context.Context, r Run) error {
			got = r
			return nil
		})
		pass(time.Second)
		other.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 1m35s: ok, attempt 2")
		if got.Attempt != 2 || got.Token != 8 || !got.Tick.Equal(after(time.Minute)) {
			t.Errorf("the second attempt was given %+v", got)
		}
	})
}

func TestFailedRunIsTriedAgain(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		schedule string
		policy   ticks.Policy
		fails    int
		want     []string
	}{
		"until it succeeds": {"0 1 * * * ?", ticks.Policy{Retries: 5}, 2, []string{
			"1m0s at 1m0s: failed", "1m0s at 1m1s: failed, attempt 2", "1m0s at 1m3s: ok, attempt 3",
		}},
		"as often as the policy says": {"0 1 * * * ?", ticks.Policy{Retries: 3, Backoff: 2 * time.Second}, 9, []string{
			"1m0s at 1m0s: failed", "1m0s at 1m2s: failed, attempt 2", "1m0s at 1m6s: failed, attempt 3",
			"1m0s at 1m14s: failed, attempt 4",
		}},
		"until the next tick": {"0/40 * * * * ?", ticks.Policy{Retries: 9, Backoff: 10 * time.Second}, 9, []string{
			"40s at 40s: failed", "40s at 50s: failed, attempt 2", "1m0s at 1m0s: failed",
			"1m0s at 1m10s: failed, attempt 2", "1m0s at 1m30s: failed, attempt 3",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				n := 0
				w.own(withPolicy(w.job("job", row.schedule, func(context.Context, Run) error {
					if n++; n <= row.fails {
						return errors.New("boom")
					}
					return nil
				}), row.policy))
				pass(99 * time.Second)
				w.stop()
				w.wantHistory("job", row.want...)
			})
		})
	}
}

// The time of a retry is in the records, so the next owner observes it.
func TestRetryIsHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := ticks.Policy{Retries: 2, Backoff: 10 * time.Minute}
		w := newWorld(t)
		w.run(t.Context())
		w.own(withPolicy(w.job("job", "0 1 * * * ?", func(context.Context, Run) error { return errors.New("boom") }), policy))
		pass(5 * time.Minute)
		w.lose()
		other := w.keeper.world("b", 8)
		other.run(t.Context())
		job := withPolicy(other.job("job", "0 1 * * * ?", nil), policy)
		job.Job.Since = midnight
		other.own(job)
		pass(10 * time.Minute)
		w.stop()
		other.stop()
		w.wantHistory("job", "1m0s at 1m0s: failed", "1m0s at 11m0s: ok, attempt 2")
		if e := w.keeper.read("job").history[1]; e.SID != "b" || e.Failures != 1 {
			t.Errorf("the retry is recorded as %+v, want it by b after one failure", e)
		}
	})
}

func TestRunThatTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		var seen error
		w.own(withPolicy(w.job("job", "0 1 * * * ?", func(ctx context.Context, _ Run) error {
			<-ctx.Done()
			seen = context.Cause(ctx)
			return ctx.Err()
		}), ticks.Policy{Timeout: 10 * time.Second, Retries: 1}))
		pass(2 * time.Minute)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: timed_out", "1m0s at 1m11s: timed_out, attempt 2")
		e := w.keeper.read("job").history[0]
		if !errors.Is(seen, ErrTimeout) || !strings.HasPrefix(e.Error, "singleworker: run timed out after 10s") || e.Ended != after(70*time.Second).UnixMilli() {
			t.Errorf("the handler saw %v, recorded %+v", seen, e)
		}
		for _, r := range w.reported() {
			if r.State != history.StateTimedOut || !errors.Is(r.Err, ErrTimeout) {
				t.Errorf("reported %s: %v", r.State, r.Err)
			}
		}
	})
}

func TestRunWithinItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(withPolicy(w.job("job", "0 1 * * * ?", working(9*time.Second)), ticks.Policy{Timeout: 10 * time.Second}))
		pass(2 * time.Minute)
		w.stop()
		w.wantResult(history.StateOK, nil)
	})
}

func TestLatestTickWaitsForTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		took := 140 * time.Second
		w.adopt(ticks.Policy{Overlap: "queue"}, func(context.Context, Run) error {
			time.Sleep(took)
			took = 0
			return nil
		})
		pass(3 * time.Minute)
		w.wantHistory("job") // nothing yet
		pass(70 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: ok", "2m0s: skipped overlap", "3m0s at 3m20s: ok", "4m0s at 4m0s: ok")
	})
}

// A manual run or a further attempt that starts first makes no difference to the tick that
// waits, whatever the misfire policy is.
func TestLatestTickWaitsForARunInBetween(t *testing.T) {
	t.Parallel()
	for _, misfire := range []jobs.MisfirePolicy{jobs.MisfireSkip, jobs.MisfireOnce, jobs.MisfireAll} {
		for what, row := range map[string]struct {
			between func(w *world) // at 00:03:20, while the run of 00:01 lasts until 00:03:30
			want    []string
		}{
			"manual": {func(w *world) { w.request(manual("r1")) }, []string{"1m0s at 1m0s: ok", "r1 at 3m30s: ok"}},
			"further attempt": {func(w *world) {
				w.leases.Lapse()
				w.leases.Renew("job", 1<<62)
			}, []string{"1m0s at 1m0s: interrupted", "1m0s at 3m20s: ok, attempt 2"}},
		} {
			t.Run(string(misfire)+", "+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.run(t.Context())
					w.adopt(ticks.Policy{Overlap: "queue", Misfire: misfire}, func(ctx context.Context, _ Run) error {
						took := time.After(10 * time.Second)
						if len(w.started()) == 1 {
							took = time.After(150 * time.Second)
						}
						select {
						case <-took:
						case <-ctx.Done():
						}
						return ctx.Err()
					})
					pass(200 * time.Second)
					row.between(w)
					pass(65 * time.Second)
					w.stop()
					ended := w.reported()[1].Ended.Sub(midnight)
					w.wantHistory("job", append(row.want,
						"2m0s: skipped overlap", fmt.Sprintf("3m0s at %v: ok", ended), "4m0s at 4m0s: ok")...)
				})
			})
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for missed, want := range map[string][]string{
		"skip": {"3m0s to 5m0s: 3 skipped paused"},
		"":     {"3m0s to 5m0s: 3 skipped paused"},
		"once": {"3m0s to 4m0s: 2 skipped paused", "5m0s at 5m30s: ok"},
		"all":  {"3m0s at 5m30s: ok", "4m0s at 5m30s: ok", "5m0s at 5m30s: ok"},
	} {
		t.Run("missed "+missed, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				job := w.job("job", "0 * * * * ?", nil)
				w.own(job)
				pass(150 * time.Second)
				job.Paused = &zkrec.Pause{
					Since: after(150 * time.Second).UnixMilli(), Until: after(330 * time.Second).UnixMilli(), Missed: jobs.MisfirePolicy(missed),
				}
				w.own(job)
				pass(180*time.Second - time.Millisecond)
				w.wantHistory("job", "1m0s at 1m0s: ok", "2m0s at 2m0s: ok")
				pass(40 * time.Second)
				w.stop()
				want = append([]string{"1m0s at 1m0s: ok", "2m0s at 2m0s: ok"}, want...)
				w.wantHistory("job", append(want, "6m0s at 6m0s: ok")...)
			})
		})
	}
}

// Ticks that a pause holds back run after it, also if the pause has no end and is resumed.
func TestPauseThatIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.abandon(1)
		w.run(t.Context())
		time.Sleep(90 * time.Second)
		job := w.job("job", "0 * * * * ?", nil)
		job.Job.Since = midnight
		job.Paused = &zkrec.Pause{Since: after(80 * time.Second).UnixMilli()}
		w.own(job)
		pass(2 * time.Minute)
		w.wantHistory("job", "1m0s at 1m0s: interrupted")
		w.own(withSpec(job, func(of *ticks.Job) { of.Paused = &zkrec.Pause{Since: of.Paused.Since, Until: time.Now().UnixMilli()} }))
		pass(40 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 3m30s: ok, attempt 2",
			"2m0s to 3m0s: 2 skipped paused", "4m0s at 4m0s: ok")
	})
}

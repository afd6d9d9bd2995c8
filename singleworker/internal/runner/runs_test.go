package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func TestRunThatSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var got Run
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", func(ctx context.Context, r Run) error {
			got = r
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}))
		pass(80 * time.Second)
		w.stop()
		r := w.wantResult(history.StateOK, nil)
		ended := got
		ended.State, ended.Ended = r.State, r.Ended
		if r.Run != ended || got != w.starts[0] || r.Ended.Sub(r.Started) != 10*time.Second || r.Err != nil {
			t.Errorf("result %+v of run %+v, handler was given %+v", r, w.starts[0], got)
		}
		w.wantHistory("job", "1m0s at 1m0s: ok")
		if got := lines(w.entries); !slices.Equal(got, []string{"1m0s at 1m0s: ok"}) {
			t.Errorf("the observer was told of %q", got)
		}
	})
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		boom := errors.New("boom")
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", func(context.Context, Run) error { return boom }))
		pass(80 * time.Second)
		w.stop()
		w.wantResult(history.StateFailed, boom)
	})
}

func TestRunThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", func(context.Context, Run) error { panic("glass") }))
		pass(80 * time.Second)
		var p *task.PanicError
		results := w.reported()
		if len(results) != 1 || results[0].State != history.StateFailed || !errors.As(results[0].Err, &p) {
			t.Fatalf("results %+v, want a failure with a *task.PanicError", results)
		}
		if p.Value != "glass" || !strings.Contains(string(p.Stack), "runs_test.go") {
			t.Errorf("panic %v with stack\n%s\nwant glass, and a stack that shows where", p.Value, p.Stack)
		}
		if text := w.keeper.read("job").history[0].Error; !strings.HasPrefix(text, "handler panicked: glass\n") || !strings.Contains(text, "runs_test.go") {
			t.Errorf("recorded %q, want the panic and its stack", text)
		} else if results[0].Error != text {
			t.Errorf("the observer is told %q, want what is recorded", results[0].Error)
		}
		pass(time.Minute) // process and job live on
		w.stop()
		w.wantOnTime(after(time.Minute), after(2*time.Minute))
	})
}

// brokenError is an error whose methods panic on a nil pointer.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// brokenChainError has a text, and panics in Unwrap on a nil pointer.
type brokenChainError struct{ cause error }

func (*brokenChainError) Error() string   { return "broken" }
func (e *brokenChainError) Unwrap() error { return e.cause }

// A handler that does not return properly has failed, and its job continues.
func TestRunThatGivesNoUsableResult(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		handle func(context.Context, Run) error
		want   string // the error begins with
	}{
		"a nil pointer as an error": {
			func(context.Context, Run) error { return (*brokenError)(nil) },
			"handler panicked: runtime error: invalid memory address",
		},
		"one that cannot be unwrapped": {
			func(context.Context, Run) error { return fmt.Errorf("wrapped: %w", (*brokenChainError)(nil)) },
			"handler panicked: runtime error: invalid memory address",
		},
		"its goroutine ends": {
			func(context.Context, Run) error {
				runtime.Goexit() // as t.FailNow does
				return nil
			},
			"handler panicked: runtime.Goexit ended its goroutine",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				w.own(w.job("job", "0 * * * * ?", row.handle))
				pass(125 * time.Second)
				w.stop()
				w.wantOnTime(after(time.Minute), after(2*time.Minute))
				w.wantHistory("job", "1m0s at 1m0s: failed", "2m0s at 2m0s: failed")
				for _, r := range w.reported() {
					if !errors.As(r.Err, new(*task.PanicError)) || !strings.HasPrefix(r.Err.Error(), row.want) {
						t.Errorf("reported %v, want %s", r.Err, row.want)
					}
				}
				for _, e := range w.keeper.read("job").history {
					if !strings.HasPrefix(e.Error, row.want) {
						t.Errorf("recorded %q, want %q", e.Error, row.want)
					}
				}
			})
		})
	}
}

func TestTickIsSkippedDuringThePreviousRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("slow", "0 * * * * ?", working(150*time.Second)))
		pass(6*time.Minute + 31*time.Second)
		w.stop()
		w.wantOnTime(after(time.Minute), after(4*time.Minute))
		w.wantHistory("slow",
			"2m0s: skipped overlap", "3m0s: skipped overlap", "1m0s at 1m0s: ok",
			"5m0s: skipped overlap", "6m0s: skipped overlap", "4m0s at 4m0s: ok")
		if got := lines(w.entries); !slices.Equal(got, lines(w.keeper.read("slow").history)) {
			t.Errorf("the observer was told of %q", got)
		}
	})
}

// A job that is reacquired, as after a lost lease, must not run beside its earlier run.
func TestOverlapOutlastsOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		release := make(chan struct{})
		w.own(w.job("job", "0 * * * * ?", func(context.Context, Run) error {
			<-release // ignores its context
			return nil
		}))
		pass(70 * time.Second)
		w.lose()
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(time.Minute)
		close(release)
		pass(time.Minute)
		w.stop()
		w.wantOnTime(after(time.Minute), after(3*time.Minute))
		w.wantHistory("job", "2m0s: skipped overlap", "1m0s at 1m0s: ok", "3m0s at 3m0s: ok")
	})
}

// Another instance has claimed the tick: the claim is based on an old record.
func TestTickThatAnotherHasClaimedIsNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", nil))
		w.keeper.change("job", func(k *kept) {
			tick := after(time.Minute).UnixMilli()
			k.record = ticks.Record{Watermark: tick, Run: zkrec.Run{
				Tick: tick, RunID: "theirs", SID: "b", Token: 99, Attempt: 1, State: history.StateOK, Ended: tick,
			}}
			k.history = []ticks.Entry{{Run: k.record.Run}}
		})
		pass(2*time.Minute + time.Second)
		w.stop()
		w.wantOnTime(after(2 * time.Minute))
		w.wantResult(history.StateOK, nil) // of the second
	})
}

// A refused claim is not run, and is retried.
func TestRefusedClaimIsNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.pull = func(ticks.Commit) lever {
			if time.Now().Before(after(3 * time.Minute)) {
				return lever{refuse: errNotOwner}
			}
			return lever{}
		}
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(2*time.Minute + time.Second)
		w.wantOnTime() // nothing
		if got := w.reported(); len(got) != 0 {
			t.Errorf("reported %+v, want no report of a run that never started", got)
		}
		pass(time.Minute)
		w.stop()
		w.wantOnTime(after(3 * time.Minute))
		w.wantHistory("job", "1m0s to 2m0s: 2 missed stalled", "3m0s at 3m0s: ok")
	})
}

func TestSlowClaimDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Slot == "slow" {
				return lever{delay: 10 * time.Minute} // ZooKeeper is away
			}
			return lever{}
		}
		w.run(t.Context())
		w.own(w.job("slow", "0 0/30 * * * ?", nil))
		w.own(w.job("job", "0 0/30 * * * ?", nil))
		pass(39 * time.Minute)
		w.wantOnTime(after(30 * time.Minute))
		pass(time.Minute)
		w.stop()
		if got := w.started()[len(w.starts)-1]; got.Job != "slow" || len(w.starts) != 2 {
			t.Errorf("started %v, want slow at last", w.starts)
		}
	})
}

func TestLeaseThatEndsInterruptsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		canceled := errors.New("job canceled")
		var seen error
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", func(ctx context.Context, _ Run) error {
			<-ctx.Done()
			seen = context.Cause(ctx)
			return fmt.Errorf("half done: %w", ctx.Err())
		}))
		pass(70 * time.Second)
		w.leases.Close("job", canceled)
		w.runner.Disown("job")
		w.stop()
		r := w.wantResult(history.StateInterrupted, canceled)
		if want := "job canceled: half done: context canceled"; !errors.Is(seen, canceled) || r.Err.Error() != want {
			t.Errorf("the handler saw %v, the result is %q; want %v, %q", seen, r.Err, canceled, want)
		}
	})
}

func TestHandlerThatFinishesDespiteItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", func(ctx context.Context, _ Run) error {
			<-ctx.Done()
			return nil
		}))
		pass(70 * time.Second)
		w.leases.Close("job", leases.ErrLost)
		w.stop()
		w.wantResult(history.StateOK, nil)
	})
}

// The lease ends while the claim is being written: nothing is started,
// and the record says so.
func TestLeaseThatEndsDuringTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Plan.Opens {
				return lever{then: func() { w.leases.Close("job", leases.ErrLost) }}
			}
			return lever{}
		}
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(70 * time.Second)
		w.stop()
		w.wantOnTime() // nothing
		w.wantResult(history.StateInterrupted, leases.ErrLost)
	})
}

// Alarms queue while the loop is blocked. They must not make it run ticks early.
func TestBlockedLoopRunsNoTickEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := false
		w.recorded = func() { // blocks once
			if !held {
				held = true
				time.Sleep(2500 * time.Millisecond)
			}
		}
		first := true
		w.run(t.Context())
		w.own(w.job("job", "* * * * * ?", func(context.Context, Run) error {
			if first {
				first = false
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		}))
		pass(6500 * time.Millisecond)
		w.stop()
		var got []string
		for _, c := range w.started() {
			got = append(got, fmt.Sprintf("%v at %v", c.Tick.Sub(midnight), c.Started.Sub(midnight)))
		}
		if want := []string{"1s at 1s", "4s at 4.5s", "5s at 5s", "6s at 6s"}; !slices.Equal(got, want) {
			t.Errorf("ticks ran\n  %q, want\n  %q: 2s overlaps, 3s and 4s come while the loop is blocked", got, want)
		}
		w.wantHistory("job", "2s: skipped overlap", "1s at 1s: ok", "3s: missed stalled",
			"4s at 4.5s: ok", "5s at 5s: ok", "6s at 6s: ok")
	})
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

func TestRunThatSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var got Claim
		w.runJob("0 * * * * ?", func(ctx context.Context, c Claim) error {
			got = c
			time.Sleep(10 * time.Second)
			return ctx.Err()
		})
		pass(80 * time.Second)
		w.stop()
		r := w.wantResult(OK, nil)
		if r.Claim != got || r.Claim != w.claims[0] || r.Ended.Sub(r.Started) != 10*time.Second || r.Err != nil {
			t.Errorf("result %+v of claim %+v, handler was given %+v", r, w.claims[0], got)
		}
	})
}

func TestRunThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		boom := errors.New("boom")
		w.runJob("0 * * * * ?", func(context.Context, Claim) error { return boom })
		pass(80 * time.Second)
		w.stop()
		w.wantResult(Failed, boom)
	})
}

func TestRunThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		w.runJob("0 * * * * ?", func(context.Context, Claim) error { panic("glass") })
		pass(80 * time.Second)
		var p *task.PanicError
		results := w.reported()
		if len(results) != 1 || results[0].State != Failed || !errors.As(results[0].Err, &p) {
			t.Fatalf("results %+v, want a failure with a *task.PanicError", results)
		}
		if p.Value != "glass" || !strings.Contains(string(p.Stack), "runs_test.go") {
			t.Errorf("panic %v with stack\n%s\nwant glass, and where it broke", p.Value, p.Stack)
		}
		pass(time.Minute) // the process lives, and so does the job
		w.stop()
		w.wantOnTime(midnight.Add(time.Minute), midnight.Add(2*time.Minute))
	})
}

func TestTickIsSkippedWhileThePreviousRunGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		w.run(t.Context())
		w.runner.Own(w.job("slow", "0 * * * * ?", func(context.Context, Claim) error {
			time.Sleep(150 * time.Second)
			return nil
		}))
		pass(6*time.Minute + 31*time.Second)
		w.stop()
		w.wantOnTime(midnight.Add(time.Minute), midnight.Add(4*time.Minute))
		w.wantSkips(
			skip{"slow", midnight.Add(2 * time.Minute), ErrOverlap}, skip{"slow", midnight.Add(3 * time.Minute), ErrOverlap},
			skip{"slow", midnight.Add(5 * time.Minute), ErrOverlap}, skip{"slow", midnight.Add(6 * time.Minute), ErrOverlap})
	})
}

// A job that came back, as after a lost lease, must not run beside its former run.
func TestOverlapOutlastsOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		w.run(t.Context())
		release := make(chan struct{})
		w.runner.Own(w.job("job", "0 * * * * ?", func(context.Context, Claim) error {
			<-release // ignores its context
			return nil
		}))
		pass(70 * time.Second)
		w.book.Close("job", grant.ErrLost)
		w.runner.Disown("job")
		w.runner.Own(w.job("job", "0 * * * * ?", nil))
		pass(time.Minute)
		close(release)
		pass(time.Minute)
		w.stop()
		w.wantOnTime(midnight.Add(time.Minute), midnight.Add(3*time.Minute))
		w.wantSkips(skip{"job", midnight.Add(2 * time.Minute), ErrOverlap})
	})
}

func TestRefusedClaimIsNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		claimed := errors.New("claimed by another")
		w.claim = func(c Claim) error {
			if c.Tick.Equal(midnight.Add(time.Minute)) {
				return claimed
			}
			return nil
		}
		w.runJob("0 * * * * ?", nil)
		pass(2*time.Minute + time.Second)
		w.stop()
		w.wantOnTime(midnight.Add(2 * time.Minute))
		w.wantResult(OK, nil) // of the second
		w.wantSkips(skip{"job", midnight.Add(time.Minute), claimed})
	})
}

func TestSlowClaimDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		w.claim = func(c Claim) error {
			if c.Job == "slow" {
				time.Sleep(10 * time.Minute) // ZooKeeper is away
			}
			return nil
		}
		w.run(t.Context())
		w.runner.Own(w.job("slow", "0 0/30 * * * ?", nil))
		w.runner.Own(w.job("job", "0 0/30 * * * ?", nil))
		pass(39 * time.Minute)
		w.wantOnTime(midnight.Add(30 * time.Minute))
		pass(time.Minute)
		w.stop()
		if got := w.starts[len(w.starts)-1]; got.Job != "slow" || len(w.starts) != 2 {
			t.Errorf("started %v, want slow at last", w.starts)
		}
	})
}

func TestLeaseThatEndsInterruptsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		canceled := errors.New("job cancelled")
		var seen error
		w.runJob("0 * * * * ?", func(ctx context.Context, _ Claim) error {
			<-ctx.Done()
			seen = context.Cause(ctx)
			return fmt.Errorf("half done: %w", ctx.Err())
		})
		pass(70 * time.Second)
		w.book.Close("job", canceled)
		w.runner.Disown("job")
		w.stop()
		r := w.wantResult(Interrupted, canceled)
		if want := "job cancelled: half done: context canceled"; !errors.Is(seen, canceled) || r.Err.Error() != want {
			t.Errorf("the handler saw %v, the result is %q; want %v, %q", seen, r.Err, canceled, want)
		}
	})
}

func TestHandlerThatFinishesInSpiteOfItsContextHasFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.runJob("0 * * * * ?", func(ctx context.Context, _ Claim) error {
			<-ctx.Done()
			return nil
		})
		pass(70 * time.Second)
		w.book.Close("job", grant.ErrLost)
		w.stop()
		w.wantResult(OK, nil)
	})
}

// The claim was sent and the lease ended before the answer came: nothing is started,
// and the record says so.
func TestLeaseThatEndsDuringTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim = func(Claim) error {
			w.book.Close("job", grant.ErrLost)
			return nil
		}
		w.runJob("0 * * * * ?", nil)
		pass(70 * time.Second)
		w.stop()
		w.wantOnTime() // nothing
		w.wantResult(Interrupted, grant.ErrLost)
	})
}

// While the loop is held up, alarms queue. They must not make it run ahead of time.
func TestLateLoopTakesTheLatestTickAndNoneEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		midnight := time.Now()
		w.skipped = func() { time.Sleep(2500 * time.Millisecond) } // a log that is blocked
		first := true
		w.runJob("* * * * * ?", func(context.Context, Claim) error {
			if first {
				first = false
				time.Sleep(1500 * time.Millisecond)
			}
			return nil
		})
		pass(6500 * time.Millisecond)
		w.stop()
		var got []string
		for _, c := range w.starts {
			got = append(got, fmt.Sprintf("%v at %v", c.Tick.Sub(midnight), c.Started.Sub(midnight)))
		}
		if want := []string{"1s at 1s", "4s at 4.5s", "5s at 5s", "6s at 6s"}; !slices.Equal(got, want) {
			t.Errorf("ticks ran\n  %q, want\n  %q: 2s overlaps, 3s and 4s come while the loop is held up", got, want)
		}
	})
}

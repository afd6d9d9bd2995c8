package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

func TestStopStartsNoFurtherRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("slow", "0 * * * * ?", func(context.Context, Run) error {
			time.Sleep(20 * time.Second)
			return nil
		}))
		w.own(w.job("other", "30 * * * * ?", nil))
		w.own(w.job("tick", "10 1 * * * ?", nil))
		pass(65 * time.Second)
		w.runner.Stop()
		w.own(w.job("late", "* * * * * ?", nil)) // after Stop
		if err := <-w.ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if took := time.Since(midnight); took != 80*time.Second {
			t.Errorf("Run ended after %v, want 80s, when the last run did", took)
		}
		w.wantOnTime(after(30*time.Second), after(60*time.Second))
	})
}

func TestRunsThatOutlastTheGraceAreCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", untilEnd))
		pass(65 * time.Second)
		start := time.Now()
		w.runner.Stop()
		pass(10 * time.Second)
		w.runner.Stop() // does not restart the grace period
		if err := <-w.ended; err != nil || time.Since(start) != grace {
			t.Errorf("Run = %v after %v, want nil after %v", err, time.Since(start), grace)
		}
		w.wantResult(history.StateInterrupted, ErrStopping)
	})
}

// A claim that waits for ZooKeeper is not a stuck handler.
func TestAClaimThatWaitsIsNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.pull = func(ticks.Commit) lever { return lever{delay: 10 * time.Minute, refuse: errNotOwner} }
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(65 * time.Second)
		w.runner.Stop()
		start := time.Now()
		if err := <-w.ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if took := time.Since(start); took != 10*time.Minute-5*time.Second {
			t.Errorf("Run ended after %v, want the end of the claim", took)
		}
	})
}

// A claim in flight when the runner stops begins no run, whenever it is answered: it is left to the
// next owner.
func TestAClaimThatIsLate(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		reply time.Duration
	}{
		"within the grace": {20 * time.Second},
		"after the grace":  {10 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.keeper.pull = func(c ticks.Commit) lever {
					if c.Plan.Opens {
						return lever{reply: row.reply}
					}
					return lever{}
				}
				w.run(t.Context())
				w.own(w.job("job", "0 * * * * ?", nil))
				pass(65 * time.Second)
				w.stop()
				w.wantHistory("job", "1m0s at 1m0s: interrupted")
				if ticks, _ := w.ticks(); len(ticks) > 0 {
					t.Errorf("the handler was called %d times", len(ticks))
				}
				if again := w.keeper.read("job").record.NextAttempt; again != history.NextRerun {
					t.Errorf("again = %q, want the next owner to run it", again)
				}
			})
		})
	}
}

func TestHandlersThatIgnoreTheirContextAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		stuckHandler := func(context.Context, Run) error {
			<-release
			return nil
		}
		w.run(t.Context())
		w.own(w.job("stuck 1", "0 * * * * ?", stuckHandler))
		w.own(w.job("stuck 2", "0 * * * * ?", stuckHandler))
		w.own(w.job("obedient", "0 * * * * ?", untilEnd))
		pass(65 * time.Second)
		start := time.Now()
		w.runner.Stop()
		err := <-w.ended
		var stuck *StuckError
		if !errors.As(err, &stuck) || !slices.Equal(stuck.Jobs, []string{"stuck 1", "stuck 2"}) {
			t.Errorf("Run = %v, want a *StuckError for both", err)
		}
		if want := "handlers still running after their context was canceled: stuck 1, stuck 2"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if took := time.Since(start); took != grace+stuckAfter {
			t.Errorf("reported after %v, want the grace and %v", took, stuckAfter)
		}
		close(release) // the bubble wants every goroutine to end
	})
}

func TestStopBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.own(w.job("job", "* * * * * ?", nil))
		w.runner.Stop()
		w.runner.Stop()
		start := time.Now()
		if err := w.runner.Run(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Run = %v after %v, want nil at once", err, time.Since(start))
		}
		w.wantOnTime() // nothing
		w.runner.Stop()
	})
}

func TestEndOfTheContextEndsRunsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.run(ctx)
		w.own(w.job("job", "0 * * * * ?", untilEnd))
		pass(65 * time.Second)
		start := time.Now()
		cancel()
		if err := <-w.ended; err != nil || time.Since(start) != 0 {
			t.Errorf("Run = %v after %v, want nil at once", err, time.Since(start))
		}
		w.wantResult(history.StateInterrupted, context.Canceled)
	})
}

func TestEndOfTheContextLeavesNoGraceToStuckHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		w.run(ctx)
		w.own(w.job("stuck", "0 * * * * ?", func(context.Context, Run) error {
			<-release
			return nil
		}))
		pass(65 * time.Second)
		start := time.Now()
		cancel()
		if err := <-w.ended; !errors.As(err, new(*StuckError)) || time.Since(start) != stuckAfter {
			t.Errorf("Run = %v after %v, want a *StuckError after %v", err, time.Since(start), stuckAfter)
		}
		close(release) // the bubble wants every goroutine to end
	})
}

// Own, Disown and Stop may be called at any time by any goroutine. Nothing hangs, nothing is
// left behind, and every claim that was written has a result.
func TestStartStopStress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for worker := range uint64(10) {
			r := rand.New(rand.NewPCG(worker, 50))
			wg.Go(func() {
				for range simkit.Share(50) {
					startStop(t, r)
				}
			})
		}
		wg.Wait()
	})
}

func startStop(t *testing.T, r *rand.Rand) {
	t.Helper()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Drawn before anything runs, so that a seed is one scenario.
	random := func() time.Duration { return time.Duration(r.Int64N(int64(2500 * time.Millisecond))) }
	own, disown, stop, end, run := random(), random(), random(), random(), random()
	if r.IntN(2) == 0 {
		end = time.Minute // the context outlasts it
	}
	if r.IntN(8) != 0 {
		run = 0 // else Stop may come first
	}
	for i := range r.IntN(4) {
		w.own(w.job(strconv.Itoa(i), "* * * * * ?", untilEnd))
	}
	again := w.job("0", "@every 1s", nil)
	for after, do := range map[time.Duration]func(){
		own: func() { w.own(again) }, disown: func() { w.runner.Disown("1") }, stop: w.runner.Stop, end: cancel,
	} {
		time.AfterFunc(after, do)
	}
	time.Sleep(run)
	if err := w.runner.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	opened := 0
	for name, j := range w.keeper.jobs {
		opened += len(w.keeper.opened(name))
		if j.record.Open() {
			t.Errorf("%s: a run without a result: %+v", name, j.record)
		}
	}
	if len(w.results) != opened {
		t.Errorf("%d runs opened, %d reported", opened, len(w.results))
	}
}

package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// always is a job that always runs, and why its runs were told to end.
func (w *world) always(name string) (j Job, ends *[]error) {
	ends = new([]error)
	return w.job(name, "@always", func(ctx context.Context, _ Run) error {
		<-ctx.Done()
		*ends = append(*ends, context.Cause(ctx))
		return nil
	}), ends
}

// begun is how many runs of a job have begun.
func (w *world) begun(job string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.starts {
		if r.Job == job {
			n++
		}
	}
	return n
}

// Only the end for which a run was evicted waits for the slot to move: after a later one, here by a
// change of the job, the next run begins at once.
func TestEvictionHoldsOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		j, _ := w.always("job")
		w.own(j)
		pass(time.Second)
		want := func(when string, want int) {
			t.Helper()
			if n := w.begun("job"); n != want {
				t.Errorf("%s: %d runs have begun, want %d", when, n, want)
			}
		}
		w.runner.Evict("job")
		pass(holdEvicted / 2)
		want("while the slot was to move", 1)
		pass(holdEvicted)
		want("although the slot has stayed", 2)
		w.own(withPolicy(j, ticks.Policy{Misfire: "skip"}))
		pass(holdEvicted / 2)
		want("after a change", 3)
		w.stop()
	})
}

// Runs of jobs that always run take no room.
func TestAlwaysTakesNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 1)
		for _, name := range []string{"one", "two"} {
			j, _ := w.always(name)
			w.own(j)
		}
		pass(time.Second)
		w.own(w.job("job", "0 * * * * ?", nil))
		pass(time.Minute)
		if n := w.begun("job"); n != 1 {
			t.Errorf("%d runs beside two that always run, want 1", n)
		}
		w.stop()
	})
}

// A run of a job that always runs ends when its job is changed, but not when it is paused or
// resumed.
func TestAlwaysEndsByAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		j, ends := w.always("job")
		w.own(j)
		pass(time.Second)
		paused := withSpec(j, func(of *ticks.Job) { of.Paused = &zkrec.Pause{Since: time.Now().UnixMilli()} })
		for _, next := range []Job{paused, j} {
			w.own(next)
			pass(time.Minute)
			if len(*ends) != 0 {
				t.Fatalf("by a pause, or its end, the run was told to end: %v", *ends)
			}
		}
		w.own(withPolicy(j, ticks.Policy{Misfire: "skip"}))
		pass(time.Second)
		if len(*ends) != 1 || !errors.Is((*ends)[0], ErrMoved) {
			t.Errorf("told to end by %v, want once by %v", *ends, ErrMoved)
		}
		w.stop()
	})
}

package task_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

func TestWaitJoinsEveryTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := task.NewGroup(t.Context())
		var ended atomic.Int32
		for i := range 3 {
			g.Go("sleeper", func(context.Context) error {
				time.Sleep(time.Duration(3-i) * time.Second)
				ended.Add(1)
				return nil
			})
		}
		if err := g.Wait(); err != nil || ended.Load() != 3 {
			t.Fatalf("Wait = %v with %d tasks ended, want nil with 3", err, ended.Load())
		}
	})
}

func TestFirstFailureCancelsTheOthers(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	g := task.NewGroup(t.Context())
	g.Go("waiter", func(ctx context.Context) error {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, boom) {
			t.Errorf("cause = %v, want %v", cause, boom)
		}
		return errors.New("second")
	})
	g.Go("failer", func(context.Context) error { return boom })
	if err := g.Wait(); !errors.Is(err, boom) {
		t.Fatalf("Wait = %v, want %v", err, boom)
	}
}

func TestPanicBecomesAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	g := task.NewGroup(t.Context())
	g.Go("fragile", func(context.Context) error { panic("glass") })
	var p *task.PanicError
	if err := g.Wait(); !errors.As(err, &p) {
		t.Fatalf("Wait = %v, want a *PanicError", err)
	}
	if p.Task != "fragile" || p.Value != "glass" || !strings.Contains(string(p.Stack), "task_test.go") {
		t.Fatalf("PanicError = %q %v\n%s", p.Task, p.Value, p.Stack)
	}
}

func TestCancelGivesItsCause(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	g := task.NewGroup(t.Context())
	var cause error
	g.Go("waiter", func(ctx context.Context) error {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil
	})
	g.Cancel(enough)
	if err := g.Wait(); err != nil || !errors.Is(cause, enough) {
		t.Fatalf("Wait = %v, cause %v; want nil, %v", err, cause, enough)
	}
}

// A pool reuses goroutines. Wait ends them; otherwise the bubble would not end.
func TestPoolReusesGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := task.NewPool(t.Context())
		goroutines := make(map[string]int)
		var mu sync.Mutex
		for range 10 {
			for range 3 {
				g.Go("short", func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					stack := make([]byte, 64)
					goroutine, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), "[")
					goroutines[goroutine]++
					return nil
				})
			}
			synctest.Wait()
		}
		boom := errors.New("boom")
		g.Go("failer", func(context.Context) error { return boom })
		if err := g.Wait(); !errors.Is(err, boom) {
			t.Errorf("Wait = %v, want %v", err, boom)
		}
		if len(goroutines) > 3 {
			t.Errorf("30 tasks, 3 at a time, on %d goroutines", len(goroutines))
		}
	})
}

// A panic or runtime.Goexit ends the task, not the pool.
func TestPoolSurvivesPanics(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(){"panic": func() { panic("glass") }, "Goexit": runtime.Goexit} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := task.NewPool(t.Context())
				g.Go("fragile", func(context.Context) error {
					end()
					return nil
				})
				synctest.Wait()
				ran := false
				g.Go("next", func(context.Context) error {
					ran = true
					return nil
				})
				if err := g.Wait(); !ran || !errors.As(err, new(*task.PanicError)) {
					t.Errorf("the next task ran: %v; Wait = %v", ran, err)
				}
			})
		})
	}
}

// A task that calls runtime.Goexit, as t.FailNow does, counts as failed and does not block Wait.
func TestGoexitBecomesAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	quit := func() error {
		runtime.Goexit()
		return nil
	}
	inGroup := func(g *task.Group) error {
		g.Go("quitter", func(context.Context) error { return quit() })
		return g.Wait()
	}
	for what, run := range map[string]func(context.Context) error{
		"group":     func(ctx context.Context) error { return inGroup(task.NewGroup(ctx)) },
		"pool":      func(ctx context.Context) error { return inGroup(task.NewPool(ctx)) },
		"protected": func(context.Context) error { return task.Protect("quitter", quit) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var p *task.PanicError
				if err := run(t.Context()); !errors.As(err, &p) {
					t.Fatalf("%v, want a *PanicError", err)
				}
				if want := "quitter panicked: runtime.Goexit ended its goroutine"; p.Error() != want || !strings.Contains(string(p.Stack), "task_test.go") {
					t.Errorf("%v\n%s\nwant %s, and where", p, p.Stack, want)
				}
			})
		})
	}
}

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := task.Backoff{Min: time.Second, Max: 4 * time.Second}
		for i, whole := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			start := time.Now()
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < whole/2 || took > whole {
				t.Errorf("wait %d took %v, want %v to %v", i, took, whole/2, whole)
			}
		}
		b.Reset()
		start := time.Now()
		if err := b.Wait(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("after Reset: %v after %v, want at most a second", err, time.Since(start))
		}
	})
}

func TestBackoffEndsWithItsContext(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	b := task.Backoff{Min: time.Hour, Max: time.Hour}
	if err := b.Wait(ctx); !errors.Is(err, enough) {
		t.Fatalf("Wait = %v, want %v", err, enough)
	}
}

// The caller is told once how a task has ended, and the group does not fail with it.
func TestGoThen(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, row := range map[string]struct {
		f    func(ctx context.Context) error
		want string // the error's text
	}{
		"returns": {func(context.Context) error { return nil }, "<nil>"},
		"fails":   {func(context.Context) error { return boom }, "boom"},
		"panics":  {func(context.Context) error { panic("glass") }, "fragile panicked: glass"},
		"exits":   {func(context.Context) error { runtime.Goexit(); return nil }, "fragile panicked: runtime.Goexit ended its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := task.NewPool(t.Context())
				var told []string
				for range 3 {
					g.GoThen("fragile", row.f, func(err error) { told = append(told, fmt.Sprint(err)) })
					synctest.Wait()
				}
				if want := []string{row.want, row.want, row.want}; !slices.Equal(told, want) {
					t.Errorf("told %q, want %q", told, want)
				}
				g.GoThen("teller", func(context.Context) error { return nil }, func(error) { panic("of the one who is told") })
				var p *task.PanicError
				if err := g.Wait(); !errors.As(err, &p) || p.Task != "teller" {
					t.Errorf("Wait = %v, want that the teller has panicked", err)
				}
			})
		})
	}
}

// A pool that is dismissed keeps no goroutine, also none of a task that ends later.
func TestDismiss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		g := task.NewPool(t.Context())
		g.Go("short", func(context.Context) error { return nil })
		synctest.Wait()
		g.Go("long", func(context.Context) error { time.Sleep(time.Minute); return nil })
		g.Go("short", func(context.Context) error { return nil })
		synctest.Wait()
		g.Dismiss()
		time.Sleep(time.Hour)
	})
}

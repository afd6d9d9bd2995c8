package task_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

func TestEach(t *testing.T) {
	t.Parallel()
	items := make([]int, 50)
	var running, most atomic.Int32
	err := task.Each(t.Context(), 3, items, func(_ context.Context, i int, _ int) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		items[i]++
		return nil
	})
	for i, times := range items {
		if times != 1 {
			t.Errorf("item %d: called %d times", i, times)
		}
	}
	if err != nil || most.Load() > 3 {
		t.Errorf("%v, %d at a time", err, most.Load())
	}
	failed := errors.New("failed")
	err = task.Each(t.Context(), 3, items, func(ctx context.Context, i int, _ int) error {
		if i == 1 {
			return failed
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, failed) {
		t.Errorf("%v, want the first error", err)
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	calls := make([]int, 50)
	var running, most atomic.Int32
	task.Together(3, len(calls), func(i int) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		calls[i]++
	})
	for i, times := range calls {
		if times != 1 {
			t.Errorf("%d: called %d times", i, times)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d at a time", most.Load())
	}
}

// The caller's task fails as if it had panicked itself, with a stack that shows where.
func TestTogetherPanics(t *testing.T) {
	t.Parallel()
	err := task.Protect("caller", func() error {
		task.Together(2, 3, func(i int) {
			if i == 1 {
				panic("glass")
			}
		})
		return nil
	})
	var p *task.PanicError
	if !errors.As(err, &p) || p.Value != "glass" || !strings.Contains(string(p.Stack), "each_test.go") {
		t.Errorf("%v, want the panic of the call", err)
	}
}

package task_test

import (
	"context"
	"errors"
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

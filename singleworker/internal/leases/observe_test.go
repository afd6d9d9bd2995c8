package leases_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

// An observer is told of every change of a right, and of those that were there before it.
func TestObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		start := time.Now()
		book.Open("early", 1, 5*time.Second)
		var told []leases.Change
		ctx, stop := context.WithCancel(leases.Observed(t.Context(), func(r leases.Change) { told = append(told, r) }))
		watch := make(chan error)
		go func() { watch <- book.Watch(ctx) }()
		synctest.Wait()
		book.Close("early", leases.ErrLost)
		time.Sleep(time.Second)
		book.Open("job", 2, 4*time.Second)
		book.Renew("job", 9*time.Second)
		book.Lapse()
		stop()
		if err := <-watch; err != nil {
			t.Error(err)
		}
		at := start.Add
		want := []leases.Change{
			{Slot: "early", Token: 1, Until: at(5 * time.Second)},
			{Slot: "early", Token: 1, Until: at(0)},
			{Slot: "job", Token: 2, Until: at(4 * time.Second)},
			{Slot: "job", Token: 2, Until: at(9 * time.Second)},
			{Slot: "job", Token: 2, Until: at(0)}, // lapsed
		}
		if !slices.EqualFunc(told, want, func(a, b leases.Change) bool {
			return a.Slot == b.Slot && a.Token == b.Token && a.Until.Equal(b.Until)
		}) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

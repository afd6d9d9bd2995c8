package leases_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

// An observer is notified of every change of a lease, and of the leases that existed before.
func TestObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		start := time.Now()
		table.Open("early", 1, 5*time.Second)
		var told []leases.Change
		ctx, stop := context.WithCancel(leases.Observed(t.Context(), func(r leases.Change) { told = append(told, r) }))
		watch := make(chan error)
		go func() { watch <- table.Watch(ctx) }()
		synctest.Wait()
		table.Close("early", leases.ErrLost)
		time.Sleep(time.Second)
		table.Open("job", 2, 4*time.Second)
		table.Renew("job", 9*time.Second)
		table.Lapse()
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

package leases_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

var errCanceled = errors.New("job canceled")

// begin starts a run and expects success.
func begin(t *testing.T, l *leases.Lease) (context.Context, func()) {
	t.Helper()
	ctx, done, err := l.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return ctx, done
}

// refused expects that no run may start, with the given error.
func refused(t *testing.T, l *leases.Lease, want error) {
	t.Helper()
	if _, _, err := l.Begin(t.Context()); !errors.Is(err, want) {
		t.Errorf("Begin = %v, want %v", err, want)
	}
	if err := l.Err(); !errors.Is(err, want) {
		t.Errorf("Err = %v, want %v", err, want)
	}
}

// ended expects the cause with which a run's context was canceled; nil means it was not.
func ended(t *testing.T, ctx context.Context, cause error) { //nolint:revive // t comes first in a test
	t.Helper()
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("cause of the run's context = %v, want %v", got, cause)
	}
}

// await waits until a run's context ends.
func await(t *testing.T, ctx context.Context) { //nolint:revive // t comes first in a test
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(24 * time.Hour):
		t.Error("the run's context does not end")
	}
}

// watch runs Table.Watch until the test ends.
func watch(t *testing.T, table *leases.Table) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- table.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Watch = %v, want nil", err)
		}
	})
	synctest.Wait()
}

func TestBeginIsRefusedWhenTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		l := table.Open("job", 7, 10*time.Second)
		if l.Slot != "job" || l.Token != 7 {
			t.Errorf("the lease is of %q under token %d, want job under 7", l.Slot, l.Token)
		}
		time.Sleep(10*time.Second - 1)
		ctx, done := begin(t, l)
		defer done()
		time.Sleep(time.Nanosecond)
		refused(t, l, leases.ErrLost)
		ended(t, ctx, nil) // Watch is not running
	})
}

func TestRenewMovesTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		l := table.Open("job", 7, 10*time.Second)
		table.Renew("job", 20*time.Second)
		table.Renew("job", 15*time.Second) // an older reply
		table.Renew("another", time.Hour)
		time.Sleep(20*time.Second - 1)
		if err := l.Err(); err != nil {
			t.Errorf("just before the renewed end: %v, want a valid lease", err)
		}
		time.Sleep(time.Nanosecond)
		refused(t, l, leases.ErrLost)
	})
}

func TestWatchEndsRunsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		watch(t, table)
		start := time.Now()
		short, done := begin(t, table.Open("short", 1, 2500*time.Millisecond))
		defer done()
		long, done := begin(t, table.Open("long", 2, time.Minute))
		defer done()

		await(t, short)
		if after := time.Since(start); after != 2500*time.Millisecond {
			t.Errorf("the shorter lease ended its run after %v, want 2.5s to the nanosecond", after)
		}
		ended(t, short, leases.ErrLost)
		ended(t, long, nil)
		await(t, long)
		if after := time.Since(start); after != time.Minute {
			t.Errorf("the longer lease ended its run after %v, want 1m", after)
		}
	})
}

// In a test of whole days the clocks are compared less often, and leases end in time all the same.
func TestUnhurriedWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		table := leases.NewTable(leases.NewClockOf(func() time.Duration { return time.Duration(off.Load()) }))
		var steps atomic.Int64
		table.OnStep = func() { steps.Add(1) }
		ctx, cancel := context.WithCancel(leases.Unhurried(t.Context(), time.Minute))
		ended := make(chan error, 1)
		go func() { ended <- table.Watch(ctx) }()
		start := time.Now()
		run, done := begin(t, table.Open("job", 1, 2500*time.Millisecond))
		defer done()
		await(t, run)
		if after := time.Since(start); after != 2500*time.Millisecond {
			t.Errorf("the lease ended its run after %v, want 2.5s", after)
		}
		off.Store(int64(-time.Hour)) // back, so that nobody is told at once
		time.Sleep(50 * time.Second)
		if steps.Load() != 0 {
			t.Error("the clocks were compared within the minute")
		}
		time.Sleep(12 * time.Second)
		if steps.Load() != 1 {
			t.Errorf("%d steps after a minute, want 1", steps.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A lease with less than a second left ends in time although the watch has just begun to wait.
func TestWatchSeesAShortLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		watch(t, table)
		start := time.Now()
		ctx, done := begin(t, table.Open("job", 1, 300*time.Millisecond))
		defer done()
		await(t, ctx)
		if after := time.Since(start); after != 300*time.Millisecond {
			t.Errorf("the lease ended its run after %v, want 300ms", after)
		}
	})
}

func TestWatchLeavesRenewedRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		watch(t, table)
		ctx, done := begin(t, table.Open("job", 7, 3*time.Second))
		defer done()
		for until := 4 * time.Second; until <= 13*time.Second; until += time.Second {
			time.Sleep(time.Second)
			table.Renew("job", until)
		}
		ended(t, ctx, nil)
		start := time.Now()
		await(t, ctx)
		if after := time.Since(start); after != 3*time.Second {
			t.Errorf("the run ended %v after the last renewal, want 3s", after)
		}
	})
}

func TestCloseCancelsRunsWithItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		l := table.Open("job", 7, time.Hour)
		first, firstDone := begin(t, l)
		second, secondDone := begin(t, l)
		firstDone() // ended before Close

		table.Close("job", errCanceled)
		ended(t, first, context.Canceled)
		ended(t, second, errCanceled)
		secondDone()
		refused(t, l, errCanceled)

		table.Renew("job", 2*time.Hour) // a late renewal does not revive it
		refused(t, l, errCanceled)
		table.Close("job", leases.ErrLost) // a second cause does not replace the first
		refused(t, l, errCanceled)
	})
}

func TestRenewAfterLapseRevivesTheLeaseButNotTheRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		l := table.Open("job", 7, time.Hour)
		before, done := begin(t, l)
		defer done()

		table.Lapse()
		ended(t, before, leases.ErrLost)
		refused(t, l, leases.ErrLost)

		table.Renew("job", time.Hour)
		after, done := begin(t, l)
		defer done()
		ended(t, before, leases.ErrLost)
		ended(t, after, nil)
	})
}

func TestNewLeaseEndsTheOldOneOfItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		old := table.Open("job", 7, time.Hour)
		other := table.Open("other", 8, time.Hour)
		ctx, done := begin(t, old)
		defer done()

		renewed := table.Open("job", 9, 2*time.Hour)
		ended(t, ctx, leases.ErrLost)
		refused(t, old, leases.ErrLost)
		for _, l := range []*leases.Lease{renewed, other} {
			if err := l.Err(); err != nil {
				t.Errorf("token %d: %v, want a valid lease", l.Token, err)
			}
		}
	})
}

func TestRunsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, done, err := table.Open("job", 7, time.Hour).Begin(parent)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		cancel(errCanceled)
		ended(t, ctx, errCanceled)
	})
}

// Under -race: every method at once, and no run outlives its lease.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := leases.NewTable(leases.NewClock())
		watch(t, table)
		start := time.Now()
		stop := start.Add(time.Minute)
		var wg sync.WaitGroup
		for worker := range uint64(8) {
			r := rand.New(rand.NewPCG(worker, 1))
			wg.Go(func() {
				for token := int64(1); time.Now().Before(stop); token++ {
					slot := lease.Slot(strconv.Itoa(r.IntN(3)))
					l := table.Open(slot, token, time.Since(start)+time.Duration(r.IntN(2000))*time.Millisecond)
					if ctx, done, err := l.Begin(t.Context()); err == nil {
						time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
						if r.IntN(2) == 0 {
							await(t, ctx)
						}
						done()
					}
					switch r.IntN(4) {
					case 0:
						table.Close(slot, errCanceled)
					case 1:
						table.Lapse()
					case 2:
						table.Renew(slot, time.Since(start)+time.Second)
					}
				}
			})
		}
		wg.Wait()
		if ctx, done := begin(t, table.Open("last", 1, time.Hour)); ctx.Err() != nil {
			t.Error("the table is unusable afterwards")
		} else {
			done()
		}
	})
}

package leases_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
)

var errCanceled = errors.New("job cancelled")

// begin starts a run that must be allowed.
func begin(t *testing.T, g *leases.Lease) (context.Context, func()) {
	t.Helper()
	ctx, done, err := g.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return ctx, done
}

// refused expects that no run may begin, for that reason.
func refused(t *testing.T, g *leases.Lease, want error) {
	t.Helper()
	if _, _, err := g.Begin(t.Context()); !errors.Is(err, want) {
		t.Errorf("Begin = %v, want %v", err, want)
	}
	if err := g.Err(); !errors.Is(err, want) {
		t.Errorf("Err = %v, want %v", err, want)
	}
}

// ended expects that a run's context has ended, or not if cause is nil.
func ended(t *testing.T, ctx context.Context, cause error) { //nolint:revive // t comes first in a test
	t.Helper()
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("cause of the run's context = %v, want %v", got, cause)
	}
}

// watch runs Book.Watch until the test ends.
func watch(t *testing.T, book *leases.Table) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- book.Watch(ctx) }()
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
		book := leases.NewTable(leases.NewClock())
		g := book.Open("job", 7, 10*time.Second)
		if g.Slot != "job" || g.Token != 7 {
			t.Errorf("the grant is of %q under token %d, want job under 7", g.Slot, g.Token)
		}
		time.Sleep(10*time.Second - 1)
		ctx, done := begin(t, g)
		defer done()
		time.Sleep(time.Nanosecond)
		refused(t, g, leases.ErrLost)
		ended(t, ctx, nil) // nobody watches
	})
}

func TestRenewMovesTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		g := book.Open("job", 7, 10*time.Second)
		book.Renew("job", 20*time.Second)
		book.Renew("job", 15*time.Second) // overtaken by the one before
		book.Renew("another", time.Hour)
		time.Sleep(20*time.Second - 1)
		if err := g.Err(); err != nil {
			t.Errorf("just before the renewed end: %v, want the right", err)
		}
		time.Sleep(time.Nanosecond)
		refused(t, g, leases.ErrLost)
	})
}

func TestWatchEndsRunsAlthoughNobodyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		watch(t, book)
		start := time.Now()
		short, done := begin(t, book.Open("short", 1, 2500*time.Millisecond))
		defer done()
		long, done := begin(t, book.Open("long", 2, time.Minute))
		defer done()

		<-short.Done()
		if after := time.Since(start); after != 2500*time.Millisecond {
			t.Errorf("the shorter lease ended its run after %v, want 2.5s to the nanosecond", after)
		}
		ended(t, short, leases.ErrLost)
		ended(t, long, nil)
		<-long.Done()
		if after := time.Since(start); after != time.Minute {
			t.Errorf("the longer lease ended its run after %v, want 1m", after)
		}
	})
}

func TestWatchSparesRenewedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		watch(t, book)
		ctx, done := begin(t, book.Open("job", 7, 3*time.Second))
		defer done()
		for until := 4 * time.Second; until <= 13*time.Second; until += time.Second {
			time.Sleep(time.Second)
			book.Renew("job", until)
		}
		ended(t, ctx, nil)
		start := time.Now()
		<-ctx.Done()
		if after := time.Since(start); after != 3*time.Second {
			t.Errorf("the run ended %v after the last renewal, want 3s", after)
		}
	})
}

func TestCloseGivesItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		g := book.Open("job", 7, time.Hour)
		first, firstDone := begin(t, g)
		second, secondDone := begin(t, g)
		firstDone() // has returned before

		book.Close("job", errCanceled)
		ended(t, first, context.Canceled)
		ended(t, second, errCanceled)
		secondDone()
		refused(t, g, errCanceled)

		book.Renew("job", 2*time.Hour) // a late reply does not bring it back
		refused(t, g, errCanceled)
		book.Close("job", leases.ErrLost) // nor does a later reason replace the first
		refused(t, g, errCanceled)
	})
}

func TestRenewAfterLapseRevivesTheRightButNotTheRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		g := book.Open("job", 7, time.Hour)
		before, done := begin(t, g)
		defer done()

		book.Lapse()
		ended(t, before, leases.ErrLost)
		refused(t, g, leases.ErrLost)

		book.Renew("job", time.Hour)
		after, done := begin(t, g)
		defer done()
		ended(t, before, leases.ErrLost)
		ended(t, after, nil)
	})
}

func TestNewGrantEndsTheOldOneOfItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		old := book.Open("job", 7, time.Hour)
		other := book.Open("other", 8, time.Hour)
		ctx, done := begin(t, old)
		defer done()

		renewed := book.Open("job", 9, 2*time.Hour)
		ended(t, ctx, leases.ErrLost)
		refused(t, old, leases.ErrLost)
		for _, g := range []*leases.Lease{renewed, other} {
			if err := g.Err(); err != nil {
				t.Errorf("token %d: %v, want the right", g.Token, err)
			}
		}
	})
}

func TestRunsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := leases.NewTable(leases.NewClock())
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, done, err := book.Open("job", 7, time.Hour).Begin(parent)
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
		book := leases.NewTable(leases.NewClock())
		watch(t, book)
		start := time.Now()
		stop := start.Add(time.Minute)
		var wg sync.WaitGroup
		for worker := range uint64(8) {
			r := rand.New(rand.NewPCG(worker, 1))
			wg.Go(func() {
				for token := int64(1); time.Now().Before(stop); token++ {
					slot := lease.Slot(strconv.Itoa(r.IntN(3)))
					g := book.Open(slot, token, time.Since(start)+time.Duration(r.IntN(2000))*time.Millisecond)
					if ctx, done, err := g.Begin(t.Context()); err == nil {
						time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
						if r.IntN(2) == 0 {
							<-ctx.Done()
						}
						done()
					}
					switch r.IntN(4) {
					case 0:
						book.Close(slot, errCanceled)
					case 1:
						book.Lapse()
					case 2:
						book.Renew(slot, time.Since(start)+time.Second)
					}
				}
			})
		}
		wg.Wait()
		if ctx, done := begin(t, book.Open("last", 1, time.Hour)); ctx.Err() != nil {
			t.Error("the book is of no use afterwards")
		} else {
			done()
		}
	})
}

// Package grant holds an instance's right to run its slots, measured on its
// own clock: what package lease decided, in the form that runs ask for.
//
// The protocol renews rights; this package ends them. [Book.Watch] does so on
// a timer of its own, so that a protocol loop that is stuck, or a connection
// that is gone, cannot keep a right alive: contexts of running work end, with
// the reason as their cause, no later than the lease does.
package grant

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// ErrLost ends runs whose lease ended before it was renewed, or whose slot
// another instance owns now, and refuses new ones.
var ErrLost = errors.New("lease lost")

// watchEvery is how often Watch compares the clocks although no lease is due:
// how late it notices that the machine was suspended, or the wall clock set.
const watchEvery = time.Second

// Book holds the grants of one instance. Safe for concurrent use.
type Book struct {
	// OnStep is called by Watch when the wall clock has moved against the
	// monotonic one: it was set, or the machine was suspended. Timers that were set
	// for a time of day are wrong then. Nil: nobody is told.
	OnStep func()

	clock *Clock
	wake  chan struct{} // merges: a grant was added or renewed

	mu       sync.Mutex
	grants   map[lease.Slot]*Grant
	observer func(Right) // nil outside of tests

	ahead time.Duration // only Watch: by how much the wall clock was, when OnStep was last called
}

// maxDrift is how far the wall clock may move without OnStep being called.
const maxDrift = 100 * time.Millisecond

// NewBook returns an empty book.
func NewBook(clock *Clock) *Book {
	return &Book{clock: clock, wake: make(chan struct{}, 1), grants: make(map[lease.Slot]*Grant)}
}

// Grant is the right to run one slot under one token.
type Grant struct {
	book  *Book
	Slot  lease.Slot
	Token int64

	// guarded by book.mu
	until time.Duration // on the clock's Elapsed
	ended error         // why the right is gone for good
	runs  map[*run]struct{}
}

type run struct{ cancel context.CancelCauseFunc }

// Open records a right until the given Elapsed time. One of the same slot that
// is still open ends.
func (b *Book) Open(slot lease.Slot, token int64, until time.Duration) *Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.grants[slot]; old != nil {
		old.end(ErrLost)
	}
	g := &Grant{book: b, Slot: slot, Token: token, until: until, runs: make(map[*run]struct{})}
	b.grants[slot] = g
	b.tell(g)
	b.signal()
	return g
}

// Renew moves the end of a right.
func (b *Book) Renew(slot lease.Slot, until time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.grants[slot]; g != nil {
		g.until = max(g.until, until)
		b.tell(g)
		b.signal()
	}
}

// Close ends a right for good, with its runs.
func (b *Book) Close(slot lease.Slot, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.grants[slot]; g != nil {
		g.end(cause)
		delete(b.grants, slot)
	}
}

// Lapse ends every lease now; Renew revives the rights, not their runs.
func (b *Book) Lapse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.grants {
		g.until = 0
		b.tell(g)
		g.cancelRuns(ErrLost)
	}
}

// Watch ends leases that are not renewed, and calls OnStep, until ctx is done.
func (b *Book) Watch(ctx context.Context) error {
	b.observe(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-b.wake:
		}
		timer.Reset(b.sweep())
		b.compare(b.clock.ahead())
	}
}

// compare calls OnStep when the wall clock has moved since the last time.
func (b *Book) compare(ahead time.Duration) {
	if b.OnStep != nil && (ahead-b.ahead).Abs() > maxDrift {
		b.ahead = ahead
		b.OnStep()
	}
}

// sweep cancels the runs of lapsed leases and returns when to look again.
func (b *Book) sweep() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now().Elapsed
	next := watchEvery
	for _, g := range b.grants {
		if left := g.until - now; left > 0 {
			next = min(next, left)
		} else {
			g.cancelRuns(ErrLost)
		}
	}
	return next
}

func (b *Book) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Begin returns a context for one run, which ends when the right does, and a
// func to call when the run has ended. It fails when the right is gone or has
// lapsed.
func (g *Grant) Begin(parent context.Context) (context.Context, func(), error) {
	g.book.mu.Lock()
	defer g.book.mu.Unlock()
	if err := g.err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	r := &run{cancel: cancel}
	g.runs[r] = struct{}{}
	return ctx, func() {
		g.book.mu.Lock()
		defer g.book.mu.Unlock()
		delete(g.runs, r)
		cancel(context.Canceled)
	}, nil
}

// Err is nil while the right holds now, and says why it does not otherwise.
func (g *Grant) Err() error {
	g.book.mu.Lock()
	defer g.book.mu.Unlock()
	return g.err()
}

func (g *Grant) err() error {
	if g.ended != nil {
		return g.ended
	}
	if g.book.clock.Now().Elapsed >= g.until {
		return ErrLost
	}
	return nil
}

func (g *Grant) end(cause error) {
	g.ended = cause
	g.book.tell(g)
	g.cancelRuns(cause)
}

func (g *Grant) cancelRuns(cause error) {
	for r := range g.runs {
		r.cancel(cause)
	}
}

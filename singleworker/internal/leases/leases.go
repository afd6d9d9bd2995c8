// Package leases holds an instance's right to run its slots, measured on its
// own clock: what package lease decided, in the form that runs ask for.
//
// The protocol renews rights; this package ends them. [Table.Watch] does so on
// a timer of its own, so that a protocol loop that is stuck, or a connection
// that is gone, cannot keep a right alive: contexts of running work end, with
// the reason as their cause, no later than the lease does.
package leases

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

// Table holds the leases of one instance. Safe for concurrent use.
type Table struct {
	// OnStep is called by Watch when the wall clock has moved against the
	// monotonic one: it was set, or the machine was suspended. Timers that were set
	// for a time of day are wrong then. Nil: nobody is told.
	OnStep func()

	clock *Clock
	wake  chan struct{} // merges: a lease was added or renewed

	mu       sync.Mutex
	leases   map[lease.Slot]*Lease
	observer func(Change) // nil outside of tests

	ahead time.Duration // only Watch: by how much the wall clock was, when OnStep was last called
}

// maxDrift is how far the wall clock may move without OnStep being called.
const maxDrift = 100 * time.Millisecond

// NewTable returns an empty table.
func NewTable(clock *Clock) *Table {
	return &Table{clock: clock, wake: make(chan struct{}, 1), leases: make(map[lease.Slot]*Lease)}
}

// Lease is the right to run one slot under one token.
type Lease struct {
	table *Table
	Slot  lease.Slot
	Token int64

	// guarded by table.mu
	until time.Duration // on the clock's Elapsed
	ended error         // why the right is gone for good
	runs  map[*run]struct{}
}

type run struct{ cancel context.CancelCauseFunc }

// Open records a right until the given Elapsed time. One of the same slot that
// is still open ends.
func (t *Table) Open(slot lease.Slot, token int64, until time.Duration) *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.leases[slot]; old != nil {
		old.end(ErrLost)
	}
	l := &Lease{table: t, Slot: slot, Token: token, until: until, runs: make(map[*run]struct{})}
	t.leases[slot] = l
	t.tell(l)
	t.signal()
	return l
}

// Renew moves the end of a right.
func (t *Table) Renew(slot lease.Slot, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[slot]; l != nil {
		l.until = max(l.until, until)
		t.tell(l)
		t.signal()
	}
}

// Close ends a right for good, with its runs.
func (t *Table) Close(slot lease.Slot, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[slot]; l != nil {
		l.end(cause)
		delete(t.leases, slot)
	}
}

// Lapse ends every lease now; Renew revives the rights, not their runs.
func (t *Table) Lapse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		l.until = 0
		t.tell(l)
		l.cancelRuns(ErrLost)
	}
}

// Watch ends leases that are not renewed, and calls OnStep, until ctx is done.
func (t *Table) Watch(ctx context.Context) error {
	t.observe(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.wake:
		}
		timer.Reset(t.sweep())
		t.compare(t.clock.ahead())
	}
}

// compare calls OnStep when the wall clock has moved since the last time.
func (t *Table) compare(ahead time.Duration) {
	if t.OnStep != nil && (ahead-t.ahead).Abs() > maxDrift {
		t.ahead = ahead
		t.OnStep()
	}
}

// sweep cancels the runs of lapsed leases and returns when to look again.
func (t *Table) sweep() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now().Elapsed
	next := watchEvery
	for _, l := range t.leases {
		if left := l.until - now; left > 0 {
			next = min(next, left)
		} else {
			l.cancelRuns(ErrLost)
		}
	}
	return next
}

func (t *Table) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Begin returns a context for one run, which ends when the right does, and a
// func to call when the run has ended. It fails when the right is gone or has
// lapsed.
func (l *Lease) Begin(parent context.Context) (context.Context, func(), error) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if err := l.err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	r := &run{cancel: cancel}
	l.runs[r] = struct{}{}
	return ctx, func() {
		l.table.mu.Lock()
		defer l.table.mu.Unlock()
		delete(l.runs, r)
		cancel(context.Canceled)
	}, nil
}

// Err is nil while the right holds now, and says why it does not otherwise.
func (l *Lease) Err() error {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.err()
}

func (l *Lease) err() error {
	if l.ended != nil {
		return l.ended
	}
	if l.table.clock.Now().Elapsed >= l.until {
		return ErrLost
	}
	return nil
}

func (l *Lease) end(cause error) {
	l.ended = cause
	l.table.tell(l)
	l.cancelRuns(cause)
}

func (l *Lease) cancelRuns(cause error) {
	for r := range l.runs {
		r.cancel(cause)
	}
}

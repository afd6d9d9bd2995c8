// Package leases holds an instance's leases on its slots, measured on the instance's
// clock. Package lease decides who owns a slot; this package hands the result
// to runs.
//
// The protocol renews leases; this package ends them. [Table.Watch] uses its own
// timer, so a stuck protocol loop or a lost connection cannot keep a lease alive:
// the contexts of runs are canceled, with the reason as their cause, no later
// than the lease ends.
//
// There is one exception. When the wall clock leaps, the machine was suspended, and the leases are
// over, or the clock was set, and nothing has happened. The clocks look the same. So leases are
// over at once for new work, but the runs in progress continue for as long as ZooKeeper is asked,
// which is at most 250 ms and never beyond the end of the lease by the monotonic clock: if a
// heartbeat that was sent after the leap is acknowledged meanwhile, nobody has taken the slot.
package leases

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// ErrLost is the cause with which runs are canceled, and the error with which new
// ones are refused, when the lease was not renewed in time or another instance
// owns the slot.
var ErrLost = errors.New("singleworker: lease lost")

// WatchEvery is how often Watch compares the clocks if no lease ends before. It bounds the delay
// until a suspension or a set wall clock is noticed. Together with askFor it is a second.
const WatchEvery = 750 * time.Millisecond

// askFor is how long runs continue at most when the clock has leapt, until a heartbeat is
// acknowledged.
const askFor = 250 * time.Millisecond

// Table holds the leases of one instance. Safe for concurrent use.
type Table struct {
	// OnStep, if not nil, is called by Watch when the wall clock was set or the machine was suspended.
	// Timers set for a time of day are wrong then, and ZooKeeper must be asked at once whether the
	// leases hold.
	OnStep func()

	clock *Clock
	wake  chan struct{} // a run has begun whose lease ends before next; buffers one signal

	mu       sync.Mutex
	leases   map[lease.Slot]*Lease
	running  map[*Lease]struct{} // leases with runs in progress: the others have nothing to cancel
	next     time.Duration       // Elapsed: when Watch looks at them again
	observer func(Change)        // nil outside of tests

	ahead time.Duration // of the wall clock when OnStep was last called; used only by Watch
	every time.Duration // WatchEvery outside of tests; likewise
}

// maxDrift is how far the wall and monotonic clocks may drift apart before OnStep is called.
const maxDrift = 100 * time.Millisecond

// NewTable returns an empty table.
func NewTable(clock *Clock) *Table {
	return &Table{clock: clock, every: WatchEvery, wake: make(chan struct{}, 1), leases: make(map[lease.Slot]*Lease), running: make(map[*Lease]struct{})}
}

// Lease is the right to run one slot under one token.
type Lease struct {
	table *Table
	Slot  lease.Slot
	Token int64

	// guarded by table.mu
	until time.Duration // on the clock's Elapsed
	ended error         // why the lease was closed; nil while it can be renewed
	runs  []*run        // in progress; mostly one
}

type run struct{ cancel context.CancelCauseFunc }

// Open adds a lease that lasts until the given Elapsed time. It ends a previous
// lease of the same slot with ErrLost.
func (t *Table) Open(slot lease.Slot, token int64, until time.Duration) *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.leases[slot]; old != nil {
		old.end(ErrLost)
	}
	l := &Lease{table: t, Slot: slot, Token: token, until: until}
	t.leases[slot] = l
	t.notify(l)
	return l
}

// Renew extends a lease. It never shortens one, and does nothing if the slot has none.
func (t *Table) Renew(slot lease.Slot, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[slot]; l != nil {
		l.until = max(l.until, until)
		t.notify(l)
	}
}

// Close ends a lease permanently and cancels its runs with the given cause.
func (t *Table) Close(slot lease.Slot, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[slot]; l != nil {
		l.end(cause)
		delete(t.leases, slot)
	}
}

// Lapse makes every lease lapse now and cancels its runs. Renew revives the lease,
// not the runs.
func (t *Table) Lapse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		l.until = 0
		t.notify(l)
		l.cancelRuns(ErrLost)
	}
}

// Watch cancels the runs of leases that were not renewed in time, and calls OnStep,
// until ctx is done. It returns nil.
func (t *Table) Watch(ctx context.Context) error {
	t.observe(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	leapt := t.clock.Leapt()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.wake:
		case <-leapt:
			leapt = t.clock.Leapt()
		}
		timer.Reset(t.sweep())
		t.compare(t.clock.ahead())
	}
}

// compare calls OnStep if the clocks have drifted apart since the last call.
func (t *Table) compare(ahead time.Duration) {
	if t.OnStep != nil && (ahead-t.ahead).Abs() > maxDrift {
		t.ahead = ahead
		t.OnStep()
	}
}

// sweep cancels the runs of lapsed leases and returns how long to wait until the next sweep.
func (t *Table) sweep() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now().Elapsed
	t.next = now + t.every
	for l := range t.running {
		if ends := t.clock.Ends(l.until); ends > now {
			t.next = min(t.next, ends)
		} else {
			l.cancelRuns(ErrLost)
		}
	}
	return t.next - now
}

// Begin returns a context for one run, canceled when the lease ends, and a function
// to call when the run has ended. It fails if the lease was closed or has lapsed.
func (l *Lease) Begin(parent context.Context) (context.Context, func(), error) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if err := l.err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	r := &run{cancel: cancel}
	l.runs = append(l.runs, r)
	l.table.running[l] = struct{}{}
	if l.until < l.table.next {
		select {
		case l.table.wake <- struct{}{}:
		default:
		}
	}
	return ctx, func() {
		l.table.mu.Lock()
		defer l.table.mu.Unlock()
		l.runs = slices.DeleteFunc(l.runs, func(other *run) bool { return other == r })
		if len(l.runs) == 0 {
			l.runs = nil
			delete(l.table.running, l)
		}
		cancel(context.Canceled)
	}, nil
}

// Err returns nil while the lease is valid, otherwise why it is not.
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
	l.table.notify(l)
	l.cancelRuns(cause)
}

func (l *Lease) cancelRuns(cause error) {
	for _, r := range l.runs {
		r.cancel(cause)
	}
}

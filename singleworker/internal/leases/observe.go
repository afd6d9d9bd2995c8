package leases

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// Change is the new state of a lease: it lasts until Until unless it is renewed or closed. A lease
// that has ended has an Until that is not in the future.
type Change struct {
	Slot  lease.Slot
	Token int64
	Until time.Time
	// Closed: it cannot be renewed any more.
	Closed bool
}

type (
	observerKey struct{}
	everyKey    struct{}
)

// Unhurried returns a context with which [Table.Watch] compares the clocks that seldom instead of
// each [WatchEvery]. In tests of whole days in virtual time most steps are these.
func Unhurried(ctx context.Context, every time.Duration) context.Context {
	return context.WithValue(ctx, everyKey{}, every)
}

// Observed returns a context with which [Table.Watch] calls f for every change of a lease, at the
// moment of the change. Tests use it to compare the leases of several instances. f must not block
// or use the table.
func Observed(ctx context.Context, f func(Change)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// observe installs the observer of ctx, if any, and its period.
func (t *Table) observe(ctx context.Context) {
	if every, set := ctx.Value(everyKey{}).(time.Duration); set {
		t.every = every
	}
	f, _ := ctx.Value(observerKey{}).(func(Change))
	if f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observer = f
	for _, l := range t.leases {
		t.notify(l)
	}
}

// notify calls the observer after a change of l. mu must be held.
func (t *Table) notify(l *Lease) {
	if t.observer == nil {
		return
	}
	until := time.Now()
	if l.ended == nil {
		until = until.Add(l.until - t.clock.Now().Elapsed)
	}
	t.observer(Change{Slot: l.Slot, Token: l.Token, Until: until, Closed: l.ended != nil})
}

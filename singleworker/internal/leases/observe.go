package leases

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// Change is a right to run as it is now: until that time, if nothing renews or ends it. One that
// is over ends in the past.
type Change struct {
	Slot  lease.Slot
	Token int64
	Until time.Time
}

type observerKey struct{}

// Observed returns a context with which [Table.Watch] tells f of every change of a right, at the
// moment of the change: for tests that hold the rights of several instances against each other. f
// must not block, nor use the table.
func Observed(ctx context.Context, f func(Change)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// observe takes over the observer that ctx has.
func (t *Table) observe(ctx context.Context) {
	f, _ := ctx.Value(observerKey{}).(func(Change))
	if f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observer = f
	for _, l := range t.leases {
		t.tell(l)
	}
}

// tell is called with mu held, after a change of l.
func (t *Table) tell(l *Lease) {
	if t.observer == nil {
		return
	}
	until := time.Now()
	if l.ended == nil {
		until = until.Add(l.until - t.clock.Now().Elapsed)
	}
	t.observer(Change{Slot: l.Slot, Token: l.Token, Until: until})
}

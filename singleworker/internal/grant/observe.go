package grant

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// Right is a right to run as it is now: until that time, if nothing renews or ends it. One that
// is over ends in the past.
type Right struct {
	Slot  lease.Slot
	Token int64
	Until time.Time
}

type observerKey struct{}

// Observed returns a context with which [Book.Watch] tells f of every change of a right, at the
// moment of the change: for tests that hold the rights of several instances against each other. f
// must not block, nor use the book.
func Observed(ctx context.Context, f func(Right)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// observe takes over the observer that ctx has.
func (b *Book) observe(ctx context.Context) {
	f, _ := ctx.Value(observerKey{}).(func(Right))
	if f == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observer = f
	for _, g := range b.grants {
		b.tell(g)
	}
}

// tell is called with mu held, after a change of g.
func (b *Book) tell(g *Grant) {
	if b.observer == nil {
		return
	}
	until := time.Now()
	if g.ended == nil {
		until = until.Add(g.until - b.clock.Now().Elapsed)
	}
	b.observer(Right{Slot: g.Slot, Token: g.Token, Until: until})
}

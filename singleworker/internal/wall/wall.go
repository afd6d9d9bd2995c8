// Package wall is the wall clock by which an instance, or an operator's client, judges schedules.
// It is the machine's; a test of several of them may set each off by itself.
package wall

import (
	"context"
	"time"
)

// Clock is how far a wall clock is off from the machine's, at the moment of the call. Nil: not at
// all.
type Clock func() time.Duration

type clockKey struct{}

// Off returns a context in which the wall clock is off.
func Off(ctx context.Context, clock Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, clock)
}

// Of returns the wall clock of a context.
func Of(ctx context.Context) Clock {
	clock, _ := ctx.Value(clockKey{}).(Clock)
	return clock
}

// Off returns how far the clock is off.
func (c Clock) Off() time.Duration {
	if c == nil {
		return 0
	}
	return c()
}

// Now returns the time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return time.Now().Round(0).Add(c()) // without the monotonic clock, which is not off
}

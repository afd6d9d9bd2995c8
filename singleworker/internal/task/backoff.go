package task

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is an exponential backoff: the delay starts at Min and doubles up to
// Max, with a jitter of up to half of it. It is not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	Jitter   func(d time.Duration) time.Duration // nil: the function of that name

	next time.Duration
}

// Wait sleeps for the next delay. If ctx ends earlier, it returns ctx's cause.
func (b *Backoff) Wait(ctx context.Context) error {
	b.next = min(max(b.next, b.Min), b.Max)
	jitter := b.Jitter
	if jitter == nil {
		jitter = Jitter
	}
	timer := time.NewTimer(jitter(b.next))
	defer timer.Stop()
	b.next *= 2
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reset sets the next delay to Min. Call it after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter returns a random duration between half of d and d.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

package task

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff waits longer after each failure: from Min, doubling, up to Max, each
// time a random part between half and the whole. Not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration

	next time.Duration
}

// Wait sleeps, or returns the context's cause when that ends sooner.
func (b *Backoff) Wait(ctx context.Context) error {
	b.next = min(max(b.next, b.Min), b.Max)
	timer := time.NewTimer(Jitter(b.next))
	defer timer.Stop()
	b.next *= 2
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reset begins again at Min, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter returns a random duration between half of d and d.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

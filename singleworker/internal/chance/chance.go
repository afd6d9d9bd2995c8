// Package chance has the random choices of an instance: the numbers by which it spreads its work
// over time and names new nodes, and the order of events at one moment. Both are the machine's. A
// test in virtual time may draw them from a seed.
package chance

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// Source is where chance comes from. Nil: the machine. It is safe for concurrent use if its
// functions are.
type Source struct {
	// Draw returns random numbers for one purpose, at the moment of the call.
	Draw func(purpose string) *rand.ChaCha8
	// Settle returns when everything else that happens at this moment has happened. No two loops of an
	// instance continue at the same time.
	Settle func(loop Loop)
}

// Loop is a goroutine of an instance that does one thing after the other.
type Loop int

// The loops of an instance.
const (
	Session Loop = iota
	Runner
)

type sourceKey struct{}

// From returns a context in which chance comes from s.
func From(ctx context.Context, s *Source) context.Context {
	return context.WithValue(ctx, sourceKey{}, s)
}

// Of returns the source of a context, or nil.
func Of(ctx context.Context) *Source {
	s, _ := ctx.Value(sourceKey{}).(*Source)
	return s
}

// Jitter returns a function like [task.Jitter].
func (s *Source) Jitter(purpose string) func(d time.Duration) time.Duration {
	if s == nil {
		return task.Jitter
	}
	return func(d time.Duration) time.Duration {
		return d/2 + time.Duration(rand.New(s.Draw(purpose)).Int64N(int64(d/2+1)))
	}
}

// Apart returns d, or a few microseconds more so that events that are planned for one moment come
// apart in a test that decides on their order.
func (s *Source) Apart(purpose string, d time.Duration) time.Duration {
	if s == nil {
		return d
	}
	return d + time.Duration(s.Draw(purpose).Uint64()%uint64(10*time.Microsecond))
}

// ID returns a random UUID.
func (s *Source) ID(purpose string) string {
	if s == nil {
		return uuid.NewString()
	}
	return uuid.Must(uuid.NewRandomFromReader(s.Draw(purpose))).String() // such a reader never fails
}

// Await is called by a loop that something has woken up, before it does anything. It returns at
// once unless a test decides on the order of events.
func (s *Source) Await(loop Loop) {
	if s != nil {
		s.Settle(loop)
	}
}

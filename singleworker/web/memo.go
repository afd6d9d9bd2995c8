package web

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// memo shares readings: one at a time for each key, whose outcome is kept for a while.
type memo[T any] struct {
	period time.Duration

	mu      sync.Mutex
	flights map[string]*flight[T]
}

// flight is one reading. Its outcome is set before done is closed.
type flight[T any] struct {
	done    chan struct{}
	value   T
	err     error
	expires time.Time // zero while it is under way
}

const (
	// readTimeout bounds a reading, which is not ended when those who wait for it have gone.
	readTimeout = 20 * time.Second
	// restFactor: after a reading, the servers have rest for that many times as long as it took.
	restFactor = 10
)

func newMemo[T any](period time.Duration) *memo[T] {
	return &memo[T]{period: period, flights: make(map[string]*flight[T])}
}

// get returns what read returns, or has returned a moment ago. Errors are not kept.
func (m *memo[T]) get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	f := m.join(ctx, key, read)
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (m *memo[T]) join(ctx context.Context, key string, read func(context.Context) (T, error)) *flight[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for other, f := range m.flights {
		if !f.expires.IsZero() && !now.Before(f.expires) {
			delete(m.flights, other)
		}
	}
	if f := m.flights[key]; f != nil {
		return f
	}
	f := &flight[T]{done: make(chan struct{})}
	m.flights[key] = f
	go m.read(context.WithoutCancel(ctx), key, f, read)
	return f
}

// read ends within readTimeout: the Client watches its context.
func (m *memo[T]) read(ctx context.Context, key string, f *flight[T], read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("panic: %v", p)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		now := time.Now()
		if f.expires = now.Add(max(m.period, restFactor*now.Sub(began))); f.err != nil && m.flights[key] == f {
			delete(m.flights, key)
		}
		close(f.done)
	}()
	f.value, f.err = read(ctx)
}

// forget has the next get read again, also what is being read now.
func (m *memo[T]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.flights)
}

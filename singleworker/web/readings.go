package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// readings are shared by viewers: of each thing one reading at a time, whose outcome is kept for a
// while: for its rest, if it has one and nobody tells that the thing has changed. A reading is for
// all, as with the group, or it is a viewer's own: then it is in the viewer's budget, waits for its
// turn, and ends when nobody waits for it.
type readings struct {
	period time.Duration
	turns  chan struct{} // buffers one for each viewer's own reading that is under way

	mu      sync.Mutex
	flights map[string]*flight
	bytes   int // of the outcomes that are kept
	uses    int // counts joins
}

// flight is one reading. Its outcome is set before done is closed. The fields after done are
// guarded by readings.mu.
type flight struct {
	value any
	err   error
	done  chan struct{}

	expires time.Time          // zero while it is under way
	soonest time.Time          // when it may expire because the thing has changed
	changed bool               // the thing has, since the reading began
	waiting int                // viewers
	cancel  context.CancelFunc // ends it, and is nil if it is for all
	by      *visitor           // whose it is, likewise
	bytes   int                // of its outcome
	used    int                // the latest join
}

const (
	// readTimeout bounds a reading.
	readTimeout = 20 * time.Second
	// restFactor: after a reading, the servers have rest for that many times as long as it took.
	restFactor = 10
	// maxRest is how long an error is kept at most, and a viewer's own reading because it is large:
	// one that failed slowly is soon tried again, and no viewer waits longer for news.
	maxRest = 10 * time.Second
	// maxReadings are viewers' own readings that are under way.
	maxReadings = 8
	// maxKept is how many bytes of viewers' own readings are kept, about.
	maxKept = 64 << 20
)

func newReadings(period time.Duration) *readings {
	return &readings{period: period, turns: make(chan struct{}, maxReadings), flights: make(map[string]*flight)}
}

// shared returns the outcome of read, of now or of a moment ago. The reading continues when those
// who wait for it have gone: it serves the next ones.
func shared[T any](ctx context.Context, r *readings, key string, read func(context.Context) (T, error)) (T, error) {
	return outcome[T](r.get(ctx, key, false, func(ctx context.Context) (any, error) { return read(ctx) }))
}

// detail is shared for a reading that is the viewer's own.
func detail[T any](ctx context.Context, r *readings, key string, read func(context.Context) (T, error)) (T, error) {
	return outcome[T](r.get(ctx, key, true, func(ctx context.Context) (any, error) { return read(ctx) }))
}

func outcome[T any](value any, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return value.(T), nil //nolint:forcetypeassert // keys begin with the kind of their outcome
}

func (r *readings) get(ctx context.Context, key string, own bool, read func(context.Context) (any, error)) (any, error) {
	f, err := r.join(ctx, key, own, read)
	if err != nil {
		return nil, err
	}
	defer r.leave(key, f)
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join begins a reading, unless there is one.
func (r *readings) join(ctx context.Context, key string, own bool, read func(context.Context) (any, error)) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, f := range r.flights {
		if !f.expires.IsZero() && !now.Before(f.expires) {
			r.drop(other, f)
		}
	}
	f := r.flights[key]
	if f == nil {
		begun, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		f = &flight{done: make(chan struct{})}
		var wait time.Duration
		if own {
			var err error
			f.by = visitorOf(ctx)
			if wait, err = f.by.pay(now); err != nil {
				cancel()
				return nil, err
			}
			f.cancel = cancel
		}
		r.flights[key] = f
		go func() {
			defer cancel()
			r.read(begun, key, f, wait, read)
		}()
	}
	r.uses++
	f.waiting, f.used = f.waiting+1, r.uses
	return f, nil
}

// leave ends a viewer's own reading if nobody waits for it any more.
func (r *readings) leave(key string, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiting--; f.waiting == 0 && f.cancel != nil && f.expires.IsZero() {
		f.cancel()
		r.drop(key, f)
	}
}

// read ends within readTimeout: the Client watches its context.
func (r *readings) read(ctx context.Context, key string, f *flight, wait time.Duration, read func(context.Context) (any, error)) {
	began := time.Now()
	ctx, sent := admin.Counted(ctx)
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("panic: %v", p)
		}
		rest := restFactor * time.Since(began)
		if f.by != nil {
			rest = max(rest, min(maxRest, f.by.sent(int(sent.Load()))))
		}
		r.keep(key, f, rest)
		close(f.done)
	}()
	if f.cancel != nil {
		if f.err = r.await(ctx, wait); f.err != nil {
			return
		}
		defer func() { <-r.turns }()
		began = time.Now()
	}
	f.value, f.err = read(ctx)
}

// await waits for as long as the budget says, and then for a turn.
func (r *readings) await(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case r.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keep keeps an outcome for that long for the next viewers, and forgets others if they are too
// large together.
func (r *readings) keep(key string, f *flight, rest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.err != nil {
		rest = min(rest, maxRest)
	}
	rest = max(r.period, rest)
	f.soonest = time.Now().Add(rest)
	if of, large := f.value.(interface{ rest() time.Duration }); large && f.err == nil && !f.changed {
		rest = max(rest, of.rest())
	}
	f.expires = time.Now().Add(rest)
	if r.flights[key] != f || f.cancel == nil {
		return
	}
	f.bytes = len(key) + sizeOf(f.value)
	r.bytes += f.bytes
	for r.bytes > maxKept {
		oldest := key
		for other, o := range r.flights {
			if o.bytes > 0 && o.used < r.flights[oldest].used {
				oldest = other
			}
		}
		r.drop(oldest, r.flights[oldest])
	}
}

// changed has a thing be read again, as soon as the period allows.
func (r *readings) changed(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flights[key]
	if f == nil {
		return
	}
	f.changed = true
	if !f.expires.IsZero() {
		f.expires = f.soonest
	}
}

// drop forgets a reading. r.mu is held.
func (r *readings) drop(key string, f *flight) {
	if r.flights[key] == f {
		delete(r.flights, key)
		r.bytes -= f.bytes
	}
}

// forget has the next get read again, even if a reading is in progress.
func (r *readings) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.flights)
	r.bytes = 0
}

package group

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends when it was not renewed for some time, with the error of a
// deadline.
type patience struct {
	context.Context //nolint:containedctx // its parent

	length time.Duration
	timer  *time.Timer
	done   chan struct{}
	once   sync.Once
	err    error // set before done is closed
}

// withPatience returns a child of ctx. Its stop must be called.
func withPatience(ctx context.Context, length time.Duration) (p *patience, stop func()) {
	p = &patience{Context: ctx, length: length, done: make(chan struct{})}
	p.timer = time.AfterFunc(length, func() { p.end(context.DeadlineExceeded) })
	forget := context.AfterFunc(ctx, func() { p.end(ctx.Err()) })
	return p, func() {
		forget()
		p.timer.Stop()
		p.end(context.Canceled)
	}
}

func (p *patience) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// renew starts the time again.
func (p *patience) renew() { p.timer.Reset(p.length) }

// Done is closed when the context has ended.
func (p *patience) Done() <-chan struct{} { return p.done }

// Err says why the context has ended, or is nil.
func (p *patience) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Package task starts, names, recovers and joins goroutines, so that no other
// package says go, and waits between tries.
//
// A [Group] owns its goroutines: Wait returns when the last has ended. The
// first that fails, or panics, cancels the group's context and gives Wait its
// error; nothing is restarted and nothing is left behind.
package task

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is a panic of a task, as an error.
type PanicError struct {
	Task  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Task, e.Value) }

// Protect runs f and returns its error, or a *PanicError when it panics.
func Protect(name string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Task: name, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Group owns goroutines. Safe for concurrent use, except that Go must not be
// called when Wait may already have returned.
type Group struct {
	ctx    context.Context //nolint:containedctx // the group is the lifetime of its tasks
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu  sync.Mutex
	err error // of the first task that failed
}

// NewGroup returns a group whose tasks get a context that ends with ctx or
// with the first failure.
func NewGroup(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// Go starts f. The name is for errors.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.wg.Go(func() {
		err := Protect(name, func() error { return f(g.ctx) })
		if err == nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.err == nil {
			g.err = err
			g.cancel(err)
		}
	})
}

// Cancel ends the group's context with a cause.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Wait returns when every task has ended, with the error of the first one
// that failed.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

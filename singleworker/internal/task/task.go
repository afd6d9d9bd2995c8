// Package task starts, names, recovers and joins goroutines, so that no other
// package says go, and waits between tries.
//
// A [Group] owns its goroutines: Wait returns when the last has ended. The
// first that fails, panics or ends its goroutine cancels the group's context and
// gives Wait its error; nothing is restarted and nothing is left behind.
package task

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is a panic of a task, as an error; or it says that the task has
// ended its goroutine, as testing's FailNow does, so that it will never return.
type PanicError struct {
	Task  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Task, e.Value) }

// goexit is the value of a PanicError that was no panic.
const goexit = "runtime.Goexit ended its goroutine"

// Protect runs f and returns its error, or a *PanicError. f has a goroutine of
// its own: it may end it without ending the caller's.
func Protect(name string, f func() error) error {
	g := NewGroup(context.Background())
	g.Go(name, func(context.Context) error { return f() })
	return g.Wait()
}

// Group owns goroutines. Safe for concurrent use, except that Go must not be
// called when Wait may already have returned.
type Group struct {
	ctx     context.Context //nolint:containedctx // the group is the lifetime of its tasks
	cancel  context.CancelCauseFunc
	tasks   sync.WaitGroup // those that have not ended
	workers sync.WaitGroup // the goroutines

	keeps bool // goroutines whose task has ended, for the next one

	mu   sync.Mutex
	err  error       // of the first task that failed
	idle []chan work // those goroutines
}

// work is one task.
type work struct {
	name string
	f    func(ctx context.Context) error
}

// maxIdle bounds how many goroutines wait for another task.
const maxIdle = 64

// NewGroup returns a group whose tasks get a context that ends with ctx or
// with the first failure.
func NewGroup(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// NewPool returns a group for many short tasks: a task begins, if it can, on a goroutine whose
// task has ended, and on its stack, which has grown already. Wait must be called, else the
// goroutines stay.
func NewPool(ctx context.Context) *Group {
	g := NewGroup(ctx)
	g.keeps = true
	return g
}

// Go starts f. The name is for errors.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.tasks.Add(1)
	w := work{name, f}
	g.mu.Lock()
	n := len(g.idle)
	if n == 0 {
		g.mu.Unlock()
		g.workers.Go(func() { g.serve(w) })
		return
	}
	idle := g.idle[n-1]
	g.idle = g.idle[:n-1]
	g.mu.Unlock()
	idle <- w
}

// serve runs a task, and those that follow.
func (g *Group) serve(w work) {
	next := make(chan work, 1)
	for more := true; more && g.run(w, next); {
		w, more = <-next
	}
}

// run runs a task, and reports whether another one may come by next. What is to
// be done when the task has ended is deferred, because a task that ends its
// goroutine does not come back.
func (g *Group) run(w work, next chan work) (waits bool) {
	var err error
	returned := false
	defer func() {
		v := recover()
		exits := v == nil && !returned
		if exits {
			v = goexit
		}
		if v != nil {
			err = &PanicError{Task: w.name, Value: v, Stack: debug.Stack()}
		}
		g.mu.Lock()
		if waits = g.keeps && !exits && len(g.idle) < maxIdle; waits {
			g.idle = append(g.idle, next)
		}
		if err != nil && g.err == nil {
			g.err = err
			g.cancel(err)
		}
		g.mu.Unlock()
		g.tasks.Done() // after that Wait may end whoever waits
	}()
	err = w.f(g.ctx)
	returned = true
	return waits // which is known when this is done
}

// Cancel ends the group's context with a cause.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Wait returns when every task has ended, with the error of the first one
// that failed.
func (g *Group) Wait() error {
	g.tasks.Wait()
	g.cancel(nil)
	g.mu.Lock()
	for _, next := range g.idle {
		close(next)
	}
	g.idle = nil
	err := g.err
	g.mu.Unlock()
	g.workers.Wait()
	return err
}

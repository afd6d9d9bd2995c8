// Package task starts, names, recovers and joins goroutines, so that no other
// package uses the go statement. It also has a backoff for retries.
//
// A [Group] owns its goroutines: Wait returns when the last has ended. The first
// task that fails, panics or ends its goroutine cancels the group's context, and
// Wait returns its error. Nothing is restarted.
package task

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// PanicError is the error of a task that panicked, or that ended its goroutine
// with runtime.Goexit, as testing's FailNow does.
type PanicError struct {
	Task  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Task, e.Value) }

// goexit is the value of a PanicError after runtime.Goexit.
const goexit = "runtime.Goexit ended its goroutine"

// Protect runs f and returns its error, or a *PanicError. f runs on a separate
// goroutine, so that runtime.Goexit does not end the caller's.
func Protect(name string, f func() error) error {
	g := NewGroup(context.Background())
	g.Go(name, func(context.Context) error { return f() })
	return g.Wait()
}

// Group owns goroutines. It is safe for concurrent use, but Go must not be called
// after Wait has returned.
type Group struct {
	ctx     context.Context //nolint:containedctx // the group is the lifetime of its tasks
	cancel  context.CancelCauseFunc
	tasks   sync.WaitGroup // running tasks
	workers sync.WaitGroup // goroutines

	mu    sync.Mutex
	keeps bool        // reuse goroutines whose task has ended
	err   error       // of the first task that failed
	idle  []chan work // goroutines to reuse
}

// work is one task.
type work struct {
	name string
	f    func(ctx context.Context) error
	told bool // somebody else is told how it ends
}

// maxIdle limits the number of idle goroutines.
const maxIdle = 64

// NewGroup returns a group whose tasks get a context that ends with ctx or with
// the first failure.
func NewGroup(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// NewPool returns a group for many short tasks. It reuses idle goroutines, whose
// stacks have already grown. Wait or Dismiss must be called, or the goroutines leak.
func NewPool(ctx context.Context) *Group {
	g := NewGroup(ctx)
	g.keeps = true
	return g
}

// Go starts f. The name is used in errors.
func (g *Group) Go(name string, f func(ctx context.Context) error) { g.start(work{name, f, false}) }

// GoThen starts f, and then, on the same goroutine, calls then with its error, or with a
// *PanicError. The group does not fail with f.
func (g *Group) GoThen(name string, f func(ctx context.Context) error, then func(err error)) {
	g.start(work{name, func(ctx context.Context) (err error) {
		returned := false
		defer func() {
			then(outcome(name, err, returned, recover()))
			err = nil
		}()
		err = f(ctx)
		returned = true
		return err
	}, true})
}

func (g *Group) start(w work) {
	g.tasks.Add(1)
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

// serve runs a task and those that are assigned to its goroutine later.
func (g *Group) serve(w work) {
	next := make(chan work, 1)
	for more := true; more && g.run(w, next); {
		w, more = <-next
	}
}

// run runs a task and reports whether its goroutine waits for another one on
// next. The cleanup is deferred, because a task may call runtime.Goexit.
func (g *Group) run(w work, next chan work) (waits bool) {
	var err error
	returned := false
	defer func() {
		v := recover()
		exits := v == nil && !returned
		if !exits || !w.told {
			err = outcome(w.name, err, returned, v)
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
		g.tasks.Done() // last, because Wait may then close the idle channels
	}()
	err = w.f(g.ctx)
	returned = true
	return waits // set by the deferred function
}

// outcome is the error of a task that has returned err, has panicked with v, or has ended its
// goroutine.
func outcome(task string, err error, returned bool, v any) error {
	if v == nil && !returned {
		v = goexit
	}
	if v == nil {
		return err
	}
	if passed, is := v.(*PanicError); is {
		return passed // of a task that this one waited for: its stack shows where
	}
	return &PanicError{Task: task, Value: v, Stack: debug.Stack()}
}

// Cancel ends the group's context with a cause.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Wait waits for all tasks and returns the error of the first one that failed.
func (g *Group) Wait() error {
	g.tasks.Wait()
	g.cancel(nil)
	g.Dismiss()
	g.mu.Lock()
	err := g.err
	g.mu.Unlock()
	g.workers.Wait()
	return err
}

// Dismiss reuses no goroutine from now on: it is for those that cannot Wait, because a task does
// not end.
func (g *Group) Dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keeps = false
	for _, next := range g.idle {
		close(next)
	}
	g.idle = nil
}

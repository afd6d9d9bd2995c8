package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string {
	if e.signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// signalOf is the signal that ended ctx, or nil.
func signalOf(ctx context.Context) error {
	if stopped := new(signalError); errors.As(context.Cause(ctx), &stopped) {
		return stopped
	}
	return nil
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends, with a
// *signalError as its cause. The second one has its usual effect, so a command
// that does not want to end can still be ended.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	return untilOneOf(parent, os.Interrupt, syscall.SIGTERM)
}

func untilOneOf(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			cancel(&signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

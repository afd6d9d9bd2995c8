package cmdline

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string {
	if e.Signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// SignalOf is the signal that ended ctx, or nil.
func SignalOf(ctx context.Context) error {
	if stopped := new(SignalError); errors.As(context.Cause(ctx), &stopped) {
		return stopped
	}
	return nil
}

// UntilSignal returns a context that the first SIGINT or SIGTERM ends, with a
// *SignalError as its cause. The second one has its usual effect, so a command
// that does not want to end can still be ended.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	return UntilOneOf(parent, os.Interrupt, syscall.SIGTERM)
}

// UntilOneOf is UntilSignal for other signals.
func UntilOneOf(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			cancel(&SignalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

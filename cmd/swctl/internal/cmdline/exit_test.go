package cmdline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

type coded int

func (c coded) Error() string { return "coded" }
func (c coded) ExitCode() int { return int(c) }

func TestExitCodes(t *testing.T) {
	t.Parallel()
	wrap := func(errs ...error) error {
		return fmt.Errorf("submit a: /billing/a: %w", errors.Join(errs...))
	}
	for _, c := range []struct {
		want ExitCode
		err  error
	}{
		{ExitOK, nil},
		{ExitUsage, Usage("x")},
		{ExitUsage, fmt.Errorf("submit: %w", Usage("x").Try("y"))},
		{ExitUsage, wrap(&invalid.FieldError{Field: "Name", Err: errors.New("x")})},
		{ExitNotFound, wrap(admin.ErrNotFound)},
		{ExitConflict, wrap(admin.ErrExists)},
		{ExitConflict, wrap(admin.ErrConflict)},
		{ExitConflict, wrap(admin.ErrUnreadable)},
		{ExitConflict, wrap(admin.ErrNoHandler)},
		{ExitConflict, wrap(admin.ErrBusy)},
		{ExitConflict, wrap(admin.ErrNotRunning)},
		{ExitNo, wrap(ErrNo)},
		{ExitUnavailable, wrap(admin.ErrUnavailable)},
		{ExitUnavailable, wrap(admin.ErrUnavailable, context.DeadlineExceeded)},
		{ExitDenied, wrap(admin.ErrDenied)},
		{ExitDenied, wrap(admin.ErrDenied, admin.ErrUnavailable)},
		{ExitTimeout, wrap(context.DeadlineExceeded)},
		{ExitUnconfirmed, wrap(ErrUnconfirmed)},
		{127, fmt.Errorf("guard: %w", coded(127))},
		{ExitInternal, wrap(errors.New("x"))},
		{ExitInternal, wrap(context.Canceled)},
		{ExitInterrupted, &SignalError{os.Interrupt}},
		{ExitInterrupted, wrap(&SignalError{os.Interrupt}, context.Canceled, admin.ErrUnavailable)},
		{ExitTerminated, wrap(&SignalError{syscall.SIGTERM}, admin.ErrUnavailable)},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		if c.want.name() == "" {
			t.Errorf("exit code %d has no name", c.want)
		}
	}
}

func TestUntilSignal(t *testing.T) {
	t.Parallel()
	ctx, stop := UntilSignal(context.Background())
	if err := SignalOf(ctx); err != nil {
		t.Errorf("before stop: %v", err)
	}
	stop()
	if err := SignalOf(ctx); err != nil || ctx.Err() == nil {
		t.Errorf("after stop: signal %v, context %v", err, ctx.Err())
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	wrap := func(errs ...error) error {
		return fmt.Errorf("submit a: /billing/a: %w", errors.Join(errs...))
	}
	for _, c := range []struct {
		want exitCode
		err  error
	}{
		{exitOK, nil},
		{exitUsage, usage("x")},
		{exitUsage, fmt.Errorf("submit: %w", usage("x").try("y"))},
		{exitUsage, wrap(&admin.InvalidError{Field: "Name", Err: errors.New("x")})},
		{exitNotFound, wrap(admin.ErrNotFound)},
		{exitConflict, wrap(admin.ErrExists)},
		{exitConflict, wrap(admin.ErrConflict)},
		{exitConflict, wrap(admin.ErrUnreadable)},
		{exitConflict, wrap(admin.ErrNoHandler)},
		{exitConflict, wrap(admin.ErrBusy)},
		{exitConflict, wrap(admin.ErrNotRunning)},
		{exitNo, wrap(errNo)},
		{exitUnavailable, wrap(admin.ErrUnavailable)},
		{exitUnavailable, wrap(admin.ErrUnavailable, context.DeadlineExceeded)},
		{exitDenied, wrap(admin.ErrDenied)},
		{exitDenied, wrap(admin.ErrDenied, admin.ErrUnavailable)},
		{exitTimeout, wrap(context.DeadlineExceeded)},
		{exitUnconfirmed, wrap(errUnconfirmed)},
		{exitInternal, wrap(errors.New("x"))},
		{exitInternal, wrap(context.Canceled)},
		{exitInterrupted, &signalError{os.Interrupt}},
		{exitInterrupted, wrap(&signalError{os.Interrupt}, context.Canceled, admin.ErrUnavailable)},
		{exitTerminated, wrap(&signalError{syscall.SIGTERM}, admin.ErrUnavailable)},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		if c.want.name() == "" {
			t.Errorf("exit code %d has no name", c.want)
		}
	}
}

// A signal decides the exit code, whatever failed because of it, and what was
// done before it is still told.
func TestSignal(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	for signal, want := range map[os.Signal]exitCode{os.Interrupt: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		for line, says := range map[string]string{
			"list":                  "ed: context canceled",
			"submit weekly @weekly": "ed",
			"cancel nightly":        "ed",
		} {
			h := newHarness(t)
			h.interactive = true
			h.fake.block["List"] = true
			ctx, cancel := context.WithCancelCause(context.Background())
			switch {
			case strings.HasPrefix(line, "cancel"):
				h.stdin = readerFunc(func([]byte) (int, error) { cancel(&signalError{signal}); <-ended; return 0, io.EOF })
			case strings.HasPrefix(line, "submit"):
				h.fake.adopter = ""
				h.fake.onAwait = func() { cancel(&signalError{signal}) }
			default:
				cancel(&signalError{signal})
			}
			code := h.run(ctx, strings.Fields(line))
			if code != want || !strings.Contains(h.errs.String(), says) {
				t.Errorf("%s: exit %d, stderr %q", line, code, h.errs.String())
			}
			if strings.HasPrefix(line, "submit") != strings.HasPrefix(h.out.String(), "created weekly v0  owner none yet") {
				t.Errorf("%s: stdout %q", line, h.out.String())
			}
		}
	}
}

func TestUntilSignal(t *testing.T) {
	t.Parallel()
	ctx, stop := untilSignal(context.Background())
	if err := signalOf(ctx); err != nil {
		t.Errorf("before stop: %v", err)
	}
	stop()
	if err := signalOf(ctx); err != nil || ctx.Err() == nil {
		t.Errorf("after stop: signal %v, context %v", err, ctx.Err())
	}
}

// Output that cannot be written is an error.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"list", "help", "version", "list -h"} {
		h := newHarness(t)
		h.stdout = writerFunc(func([]byte) (int, error) { return 0, errors.New("no space left on device") })
		if code := h.exec(strings.Fields(line)...); code != exitInternal || !strings.Contains(h.errs.String(), "write output: no space left") {
			t.Errorf("%s: exit %d, stderr %q", line, code, h.errs.String())
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

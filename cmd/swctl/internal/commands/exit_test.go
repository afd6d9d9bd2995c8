package commands

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A signal decides the exit code, whatever failed because of it, and earlier work is still told.
func TestSignal(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	for signal, want := range map[os.Signal]cmdline.ExitCode{os.Interrupt: cmdline.ExitInterrupted, syscall.SIGTERM: cmdline.ExitTerminated} {
		for line, says := range map[string]string{
			"list":                  "ed: context canceled",
			"submit weekly @weekly": "ed",
			"cancel nightly":        "ed",
		} {
			h := newHarness(t)
			h.Interactive = true
			h.fake.block["List"] = true
			ctx, cancel := context.WithCancelCause(context.Background())
			switch {
			case strings.HasPrefix(line, "cancel"):
				h.Stdin = readerFunc(func([]byte) (int, error) { cancel(&cmdline.SignalError{Signal: signal}); <-ended; return 0, io.EOF })
			case strings.HasPrefix(line, "submit"):
				h.fake.adopter = ""
				h.fake.onAwait = func() { cancel(&cmdline.SignalError{Signal: signal}) }
			default:
				cancel(&cmdline.SignalError{Signal: signal})
			}
			code := h.Run(ctx, strings.Fields(line))
			if code != want || !strings.Contains(h.errs.String(), says) {
				t.Errorf("%s: exit %d, stderr %q", line, code, h.errs.String())
			}
			if strings.HasPrefix(line, "submit") != strings.HasPrefix(h.out.String(), "created weekly v1  owner none yet") {
				t.Errorf("%s: stdout %q", line, h.out.String())
			}
		}
	}
}

// Output that cannot be written is an error.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"list", "help", "version", "list -h"} {
		h := newHarness(t)
		h.Stdout = writerFunc(func([]byte) (int, error) { return 0, errors.New("no space left on device") })
		if code := h.exec(strings.Fields(line)...); code != cmdline.ExitOutput || !strings.Contains(h.errs.String(), "write output: no space left") {
			t.Errorf("%s: exit %d, stderr %q", line, code, h.errs.String())
		}
	}
}

// Whether a server type without jobs exists must be known: a typing error is no empty list, however
// slow the answer.
func TestUnknownServerTypeIsNoEmptyList(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"list", "instances"} {
		onCluster(t, func(t *testing.T, h *harness, cluster *swtest.Cluster) {
			t.Helper()
			h.want(t, line, "no such server type: billing")
			stop := cluster.Server().ControlKeep(zkdev.OpExists, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Hour) })
			defer stop()
			if code := h.exec(strings.Fields(line + " --timeout 3s")...); code != cmdline.ExitUnavailable {
				t.Errorf("%s: exit %d, stdout %q, stderr %q", line, code, h.out.String(), h.errs.String())
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

package instance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker"
)

var (
	errHandler = errors.New("the handler's error")
	errCause   = errors.New("the cause of the context's end")
)

func TestLedgerWritesEveryOutcome(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	run := &singleworker.Run{
		Job: "j", Tick: time.UnixMilli(1_800_000_000_000), InstanceID: "app-1", Token: 7, Attempt: 1,
	}
	call := func(ctx context.Context, handler singleworker.Handler) (err error) {
		defer func() { _ = recover() }()
		return l.middleware(handler)(ctx, run)
	}
	ended, end := context.WithCancelCause(t.Context())
	ok := call(t.Context(), func(context.Context, *singleworker.Run) error { return nil })
	failed := call(t.Context(), func(context.Context, *singleworker.Run) error { return errHandler })
	interrupted := call(ended, func(ctx context.Context, _ *singleworker.Run) error {
		end(errCause)
		return context.Cause(ctx)
	})
	_ = call(t.Context(), func(context.Context, *singleworker.Run) error { panic("a bug") })
	if ok != nil || !errors.Is(failed, errHandler) || !errors.Is(interrupted, errCause) {
		t.Errorf("errors are changed: %v, %v, %v", ok, failed, interrupted)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for line := range strings.Lines(string(text)) {
		var got record.Run
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got.Start == 0 || got.End < got.Start {
			t.Errorf("start %d, end %d", got.Start, got.End)
		}
		outcomes = append(outcomes, got.Outcome)
		got.Start, got.End, got.Outcome = 0, 0, ""
		if want := (record.Run{Job: "j", Tick: 1_800_000_000_000, SID: "app-1", Token: 7, Attempt: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if want := []string{"ok", "failed", "interrupted", "failed"}; !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %q, want %q", outcomes, want)
	}
}

func TestSimulatedWorkEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancelCause(t.Context())
	end(errCause)
	l := &ledger{out: new(strings.Builder), work: time.Hour}
	err := l.middleware(func(context.Context, *singleworker.Run) error {
		t.Error("the handler was called")
		return nil
	})(ctx, &singleworker.Run{})
	if !errors.Is(err, errCause) {
		t.Errorf("%v, want the cause", err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errHandler }

func TestRunFailsIfItCannotBeRecorded(t *testing.T) {
	t.Parallel()
	l := &ledger{out: fullDisk{}}
	err := l.middleware(func(context.Context, *singleworker.Run) error { return nil })(t.Context(), &singleworker.Run{})
	if !errors.Is(err, errHandler) {
		t.Errorf("%v, want the writer's error", err)
	}
}

func TestHandlersAreOffUnlessAllowed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "print-number print-time"},
		{[]string{"--allow-command", "/bin/true"}, "command print-number print-time"},
		{[]string{"--allow-url", "http://127.0.0.1:1/"}, "http print-number print-time"},
	} {
		opts, err := parseFlags(test.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		handlers, err := opts.handlers(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range handlers {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%v: %s, want %s", test.args, got, test.want)
		}
	}
	opts, err := parseFlags([]string{"--allow-command", "rsync"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opts.handlers(io.Discard); err == nil {
		t.Error("a program without its path was allowed")
	}
}

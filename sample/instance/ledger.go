package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/swjobs/singleworker/sample/record"
	"github.com/swjobs/singleworker/singleworker"
)

// ledger records every run in a file. Instances can share the file: each line is
// appended by a single write.
type ledger struct {
	out  io.Writer
	work time.Duration // simulated work per run
}

// openLedger opens the file, which is never closed. Without a path, runs are
// not recorded.
func openLedger(path string, work time.Duration) (*ledger, error) {
	if path == "" {
		return &ledger{out: io.Discard, work: work}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	return &ledger{out: file, work: work}, nil
}

// middleware wraps a handler: it writes the line when the handler has returned or
// panicked. If the line cannot be written, the run fails.
func (l *ledger) middleware(handler singleworker.Handler) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) (err error) {
		line := record.Run{
			Job: run.Job, Tick: record.Millis(run.Tick.UnixMilli()), SID: run.InstanceID, Token: run.Token,
			Attempt: run.Attempt, Start: now(),
			Outcome: "failed", // if the handler panics
		}
		defer func() {
			line.End = now()
			err = errors.Join(err, l.write(line))
		}()
		if err = l.pretend(ctx); err == nil {
			err = handler(ctx, run)
		}
		switch {
		case err == nil:
			line.Outcome = "ok"
		case ctx.Err() != nil:
			line.Outcome = "interrupted"
		}
		return err
	}
}

func now() record.Millis { return record.Millis(time.Now().UnixMilli()) }

// pretend simulates work, and stops at once when the run's context ends.
func (l *ledger) pretend(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(l.work):
		return nil
	}
}

func (l *ledger) write(line record.Run) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.out.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

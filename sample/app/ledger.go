package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// entry is a line of the ledger: one run. Times are Unix milliseconds, by the
// clock of the instance.
type entry struct {
	Job     string `json:"job"`
	Tick    int64  `json:"tick"`  // the scheduled time
	SID     string `json:"sid"`   // the instance
	Token   int64  `json:"token"` // the fencing token
	Attempt int    `json:"attempt"`
	Start   int64  `json:"start"`
	End     int64  `json:"end"`
	Outcome string `json:"outcome"` // ok, failed or interrupted
}

// ledger writes down every run. Instances may share its file: each line is
// appended by one write.
type ledger struct {
	out  io.Writer
	work time.Duration // by which every run is prolonged
}

// openLedger opens the file, which is never closed. Without a path, runs are
// not written down.
func openLedger(path string, work time.Duration) (*ledger, error) {
	if path == "" {
		return &ledger{out: io.Discard, work: work}, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the user names it, to be read
	if err != nil {
		return nil, err
	}
	return &ledger{out: file, work: work}, nil
}

// record wraps a handler: its line is written when it has returned, however it
// did. A run whose line cannot be written has failed.
func (l *ledger) record(handler singleworker.Handler) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) (err error) {
		line := entry{
			Job: run.Job, Tick: run.Tick.UnixMilli(), SID: run.InstanceID, Token: run.Token,
			Attempt: run.Attempt, Start: time.Now().UnixMilli(),
			Outcome: "failed", // what it is if the handler panics
		}
		defer func() {
			line.End = time.Now().UnixMilli()
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

// pretend works for a while, and stops at once when the run's context ends.
func (l *ledger) pretend(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(l.work):
		return nil
	}
}

func (l *ledger) write(line entry) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.out.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

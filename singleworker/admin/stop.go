package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// StopOptions say which run is to be stopped, and why.
type StopOptions struct {
	RunID  string // Default: whichever goes on
	By     string // who asks, up to 1 KiB
	Reason string // up to 1 KiB
}

// StopRun tells the owner of a job to end the run that goes on, and waits
// until it has ended: the context of the run ends, it is recorded as
// RunInterrupted, and its tick is not run again. The entry is what became of
// the run, which may have ended otherwise at the last moment; when ctx ends
// first, it is RunRunning, and the request stays. Errors: *InvalidError,
// ErrNotFound, ErrNotRunning, ErrConflict, ErrDenied, ErrUnavailable, the
// cause of the context's end.
func (c *Client) StopRun(ctx context.Context, name string, opts StopOptions) (Entry, error) {
	a, err := c.newAsk(name, zkrec.Request{Kind: zkrec.RequestStop, At: time.Now(), By: opts.By, Reason: opts.Reason})
	if err != nil {
		return Entry{}, err
	}
	var run Run // to stop
	a.judge = func(status JobStatus, _ []string, waiting map[string]zkrec.Request) (bool, error) {
		last := status.LastRun
		switch {
		case a.wrote && (last == nil || last.State != RunRunning || last.RunID != run.RunID):
			return false, nil // it was told, and has ended
		case last == nil:
			return false, fmt.Errorf("%w: the job never ran", ErrNotRunning)
		case last.State != RunRunning:
			return false, fmt.Errorf("%w: its last run %s is %s", ErrNotRunning, last.RunID, last.State)
		case opts.RunID != "" && last.RunID != opts.RunID:
			return false, fmt.Errorf("%w: not %s, but %s runs", ErrNotRunning, opts.RunID, last.RunID)
		}
		run, a.request.RunID = *last, last.RunID
		for _, other := range waiting {
			if other.Kind == zkrec.RequestStop && other.RunID == run.RunID {
				return false, nil // somebody else has told it
			}
		}
		return true, nil
	}
	if err := a.run(ctx); err != nil {
		return Entry{}, fmt.Errorf("stop the run of %s: %w", name, err)
	}
	ended, err := c.awaitEnd(ctx, name, run)
	if err != nil {
		err = fmt.Errorf("stop the run of %s: run %s on %s was told, and has not ended: %w", name, run.RunID, run.InstanceID, err)
	}
	return ended, err
}

// awaitEnd waits until a run is not running any more.
func (c *Client) awaitEnd(ctx context.Context, name string, run Run) (Entry, error) {
	entry := Entry{Run: run, To: run.Tick, Count: 1}
	err := c.await(ctx, func() (bool, error) {
		if _, _, err := c.conn.GetW(ctx, c.tree.Tick(name)); err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return false, err
		}
		past, err := c.past(ctx, name)
		if err != nil {
			return false, err
		}
		found, ok := past.run(run.RunID)
		if !ok {
			found = entry
			found.State = RunUnknown // it has ended, and was forgotten since
		}
		entry = found
		return entry.State != RunRunning, nil
	})
	return entry, err
}

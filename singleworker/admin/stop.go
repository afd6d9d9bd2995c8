package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// StopOptions select the run to stop, and record who stops it and why.
type StopOptions struct {
	RunID  string // Default: the run in progress
	By     string // who stops it, up to 1 KiB
	Reason string // up to 1 KiB
}

// StopRun requests the owner of a job to stop its run, and waits until the run
// has ended: its context is canceled, it is recorded as RunInterrupted, and its
// tick is not run again, unless the instance dies before the handler has
// returned. For a job with shards, it stops the runs of all shards, or of one
// shard, "report[3]". The entries are the outcome of the runs, some of which may
// have ended otherwise just before. If ctx is done first, some are RunRunning,
// and the requests stay pending. Errors: *InvalidError, *job.FieldError for the
// name, ErrNotFound, ErrNoShard, ErrNotRunning, ErrConflict, ErrDenied,
// ErrUnavailable, the cause of ctx.
func (c *Client) StopRun(ctx context.Context, name string, opts StopOptions) ([]Entry, error) {
	a, err := c.newAsk(name, zkrec.Request{Kind: zkrec.RequestStop, At: time.Now(), By: opts.By, Reason: opts.Reason})
	if err != nil {
		return nil, err
	}
	stops := stopping{}
	a.judge = func(slot past, waiting map[string]zkrec.Request) (*zkrec.Request, error) {
		last, old := slot.job.LastRun, stops[slot.slot]
		switch {
		case a.wrote && old != nil && (last == nil || last.State != RunRunning || last.RunID != old.RunID):
			return nil, nil //nolint:nilnil // an earlier try stopped it
		case last == nil:
			return nil, fmt.Errorf("%w: the job never ran", ErrNotRunning)
		case last.State != RunRunning:
			return nil, fmt.Errorf("%w: its last run %s is %s", ErrNotRunning, last.RunID, last.State)
		case opts.RunID != "" && last.RunID != opts.RunID:
			return nil, fmt.Errorf("%w: not %s, but %s runs", ErrNotRunning, opts.RunID, last.RunID)
		}
		stops[slot.slot] = &Entry{Run: *last, To: last.Tick, Count: 1}
		if slot.job.Shard != nil {
			stops[slot.slot].Shard = &slot.job.Shard.Index
		}
		for _, other := range waiting {
			if other.Kind == zkrec.RequestStop && other.RunID == last.RunID {
				return nil, nil //nolint:nilnil // its stop is requested already
			}
		}
		request := a.request
		request.RunID = last.RunID
		return &request, nil
	}
	if err := a.run(ctx); err != nil {
		return nil, fmt.Errorf("stop the run of %s: %w", name, err)
	}
	err = c.awaitEnd(ctx, name, stops)
	entries := stops.entries()
	if first := slices.IndexFunc(entries, func(e Entry) bool { return e.State == RunRunning }); first >= 0 {
		run := entries[first]
		err = fmt.Errorf("stop the run of %s: run %s on %s has not ended yet: %w", name, run.RunID, run.InstanceID, err)
	}
	return entries, err
}

// stopping holds the runs to be stopped, by slot.
type stopping map[string]*Entry

// entries are the runs by the index of their shards.
func (s stopping) entries() []Entry {
	var entries []Entry
	for _, entry := range s {
		entries = append(entries, *entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(*a.Shard, *b.Shard) })
	return entries
}

// awaitEnd waits until the runs have ended.
func (c *Client) awaitEnd(ctx context.Context, name string, stops stopping) error {
	return c.await(ctx, func() (bool, error) {
		var open []string
		for slot, entry := range stops {
			if entry.State == RunRunning {
				open = append(open, slot)
			}
		}
		err := task.Each(ctx, readers, open, func(ctx context.Context, _ int, slot string) error {
			_, _, err := c.conn.GetW(ctx, c.tree.Tick(slot))
			if errors.Is(err, zkconn.ErrNoNode) {
				return nil
			}
			return err
		})
		if err != nil {
			return false, err
		}
		_, pasts, err := c.pasts(ctx, name)
		if err != nil {
			return false, err
		}
		done := true
		for _, slot := range open {
			entry := stops[slot]
			entry.State = RunUnknown // unless a record of it still exists
			for _, past := range pasts {
				if found, ok := past.run(entry.RunID); ok {
					*entry = found
				}
			}
			done = done && entry.State != RunRunning
		}
		return done, nil
	})
}

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

// StopOptions say which run is to be stopped, and why.
type StopOptions struct {
	RunID  string // Default: whichever goes on
	By     string // who asks, up to 1 KiB
	Reason string // up to 1 KiB
}

// StopRun tells the owner of a job to end the run that goes on, and waits
// until it has ended: the context of the run ends, it is recorded as
// RunInterrupted, and its tick is not run again, unless the instance dies before
// the handler has returned. Of a job with shards, all runs
// that go on are ended, or that of one shard, "report[3]". The entries are what
// became of the runs, which may have ended otherwise at the last moment; when ctx
// ends first, some are RunRunning, and the requests stay. Errors: *InvalidError,
// ErrNotFound, ErrNoShard, ErrNotRunning, ErrConflict, ErrDenied, ErrUnavailable,
// the cause of the context's end.
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
			return nil, nil //nolint:nilnil // it was told, and has ended
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
				return nil, nil //nolint:nilnil // somebody else has told it
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
		err = fmt.Errorf("stop the run of %s: run %s on %s was told, and has not ended: %w", name, run.RunID, run.InstanceID, err)
	}
	return entries, err
}

// stopping are the runs that were told to end, by their slots.
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

// awaitEnd waits until the runs are not running any more.
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
			entry.State = RunUnknown // unless there still is a record of it
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

package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// StopOptions select the run to stop, and record who stops it and why.
type StopOptions struct {
	RunID string // Default: the run in progress
	// By is who stops it: one printable line, up to 1 KiB, of which the run keeps 100 bytes. Default:
	// as of the log, see Who.
	By     string
	Reason string // the same, without a default
}

// StopRun requests the owner of a job to stop its run, and waits until the run has ended: its
// context is canceled, it is recorded as history.StateInterrupted, and its tick is not run again,
// unless the instance dies before the handler has returned. For a job with shards, it stops the
// runs of all shards, or of one shard, "report[3]". The entries are the outcome of the runs, some
// of which may have ended otherwise just before. If ctx is done first, some are
// history.StateRunning, and the requests stay pending until they end: Requests has them. Errors:
// *invalid.FieldError, *invalid.FieldError for the name, ErrNotFound, ErrNoShard, ErrNotRunning,
// ErrConflict, ErrDenied, ErrUnavailable, the cause of ctx.
func (c *Client) StopRun(ctx context.Context, name string, opts StopOptions) ([]history.Entry, error) {
	a, err := c.newAsk(ctx, zkrec.DeedStop, name, zkrec.Request{Kind: zkrec.RequestStop, At: wall.Of(ctx).Now(), By: opts.By, Reason: opts.Reason})
	if err != nil {
		return nil, err
	}
	stops := map[string]*openRun{} // by slot
	a.judge = func(slot past, waiting map[string]zkrec.Request) (*zkrec.Request, error) {
		last, old := slot.job.LastRun, stops[slot.slot]
		switch {
		case a.wrote && old != nil && (last == nil || last.State != history.StateRunning || last.RunID != old.last.RunID):
			return nil, nil //nolint:nilnil // an earlier try stopped it
		case last == nil:
			return nil, fmt.Errorf("%w: the job never ran", ErrNotRunning)
		case last.State != history.StateRunning:
			return nil, fmt.Errorf("%w: its last run %s is %s", ErrNotRunning, last.RunID, last.State)
		case opts.RunID != "" && last.RunID != opts.RunID:
			return nil, fmt.Errorf("%w: not %s, but %s runs", ErrNotRunning, opts.RunID, last.RunID)
		}
		stops[slot.slot] = newOpenRun(slot, c.tree.Tick(slot.slot), history.Entry{Run: *last, To: last.Tick, Count: 1})
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
	runs := slices.SortedFunc(maps.Values(stops), func(a, b *openRun) int {
		return cmp.Or(cmp.Compare(len(a.slot), len(b.slot)), cmp.Compare(a.slot, b.slot)) // by index, too
	})
	err = c.await(ctx, func(l *lookout) (bool, error) { return l.follow(ctx, name, runs, lookAtStopped) })
	var entries []history.Entry
	for _, run := range runs {
		entries = append(entries, run.last)
	}
	if first := slices.IndexFunc(entries, func(e history.Entry) bool { return e.State == history.StateRunning }); first >= 0 {
		run := entries[first]
		err = fmt.Errorf("stop the run of %s: run %s on %s has not ended yet: %w", name, run.RunID, run.InstanceID, err)
	}
	return entries, err
}

// lookAtStopped updates a run that is to be stopped.
func lookAtStopped(r *openRun, slot past, _ bool) {
	entry, found := slot.run(r.last.RunID)
	if found {
		r.last = entry
	} else {
		r.last.State = history.StateUnknown
	}
	r.done = r.last.State != history.StateRunning
}

package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// History is what became of the last ticks of a job.
type History struct {
	Job JobStatus
	// Entries are the last runs, and the ticks that were not run, the newest
	// first. Of one that has no result yet the State is RunRunning or
	// RunUnknown. Several entries of one tick differ in Attempt; the first of
	// them here is the tick's last state. An entry whose State is RunUnreadable
	// stands for a record that holds garbage.
	Entries []Entry
}

// History reads what became of the last ticks of a job: some 20, fewer if
// their errors are long. Errors: *InvalidError for the name, ErrNotFound,
// ErrDenied, ErrUnavailable.
func (c *Client) History(ctx context.Context, name string) (History, error) {
	if err := zkrec.CheckName(name); err != nil {
		return History{}, &InvalidError{"Name", name, err}
	}
	var past past
	err := c.retry(ctx, func() (err error) {
		past, err = c.past(ctx, name)
		return err
	})
	if err != nil {
		return History{}, fmt.Errorf("history of %q: %w", name, err)
	}
	return History{Job: past.job, Entries: past.newestFirst()}, nil
}

// past is what the records of a job say of its ticks.
type past struct {
	records

	job        JobStatus
	history    zkrec.History
	historyErr error // why the history cannot be read
}

func (c *Client) past(ctx context.Context, name string) (p past, err error) {
	live, err := c.live(ctx)
	if err != nil {
		return past{}, err
	}
	if p.records, err = c.read(ctx, name); err != nil {
		return past{}, err
	}
	data, _, err := c.optional(ctx, c.tree.History(name))
	if err != nil {
		return past{}, err
	}
	p.history, p.historyErr = zkrec.ParseHistory(data)
	p.job = p.status(name, live, time.Now())
	return p, nil
}

// newestFirst is the history with the run of the tick record.
func (p past) newestFirst() []Entry {
	var entries []Entry
	known := false // whether the history has the run of the tick record
	if p.historyErr != nil {
		entries = append(entries, Entry{Run: Run{State: RunUnreadable, Error: p.historyErr.Error()}, Count: 1})
	}
	for _, e := range p.history.Entries {
		entry := entryOf(e)
		if last := p.job.LastRun; last != nil && e.RunID != "" && e.RunID == last.RunID {
			known, entry.Again, entry.AgainAt = true, last.Again, last.AgainAt
		}
		entries = append(entries, entry)
	}
	// An open run has no entry yet, and older versions kept no history.
	if last := p.job.LastRun; last != nil && !known {
		entries = append(entries, Entry{Run: *last, To: last.Tick, Count: 1})
	}
	slices.Reverse(entries)
	return entries
}

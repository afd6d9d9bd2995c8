package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// await calls look until it is done or ctx is: when a watched node changes, and
// every second. It waits out an unreachable server; if the server is unreachable
// when ctx is done, the error is ErrUnavailable, as the present state is unknown.
func (c *Client) await(ctx context.Context, look func() (done bool, err error)) error {
	const lookAgain = time.Second // sooner if a watch fires
	seen := time.Time{}
	for {
		err := c.conn.Retry(ctx, func() error {
			done, err := look()
			if err == nil && done {
				return errDone
			}
			return err
		})
		switch {
		case errors.Is(err, errDone):
			return nil
		case err == nil:
			seen = time.Now()
		case seen.IsZero() || !errors.Is(err, ErrUnavailable):
			return err
		}
		select {
		case <-ctx.Done():
			if err != nil && time.Since(seen) > 2*lookAgain { // otherwise ctx ended the latest look
				return err
			}
			return context.Cause(ctx)
		case <-c.changed:
		case <-time.After(lookAgain):
		}
	}
}

// errDone ends await.
var errDone = errors.New("done")

// openRun is a run that is waited for.
type openRun struct {
	slot   string
	path   string // of the node that changes when the run ends
	last   Entry  // as it was last seen
	reason string // why it is not done
	done   bool
}

func newOpenRun(slot past, path string, run Entry) *openRun {
	if slot.job.Shard != nil {
		run.Shard = &slot.job.Shard.Index
	}
	return &openRun{slot: slot.slot, path: path, last: run}
}

// follow calls look for the runs that are not done, to update them; gone says that the node at their path is
// missing. It returns whether all are done.
func (c *Client) follow(ctx context.Context, name string, runs []*openRun, look func(run *openRun, slot past, gone bool)) (done bool, err error) {
	gone := make([]bool, len(runs)) // the path is read before the run's records
	err = task.Each(ctx, readers, runs, func(ctx context.Context, i int, run *openRun) error {
		if run.done {
			return nil
		}
		_, _, err := c.conn.GetW(ctx, run.path)
		if gone[i] = errors.Is(err, zkconn.ErrNoNode); gone[i] {
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
	done = true
	for i, run := range runs {
		if run.done {
			continue
		}
		// A shard that no longer exists has left no records.
		if k := slices.IndexFunc(pasts, func(p past) bool { return p.slot == run.slot }); k >= 0 {
			look(run, pasts[k], gone[i])
		} else {
			run.last.State, run.done = RunUnknown, true
		}
		done = done && run.done
	}
	return done, nil
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Get reads a job, or one shard: "report[3]". Errors: *job.FieldError for the
// name, ErrNotFound, ErrNoShard, ErrUnreadable for a shard, ErrDenied,
// ErrUnavailable.
func (c *Client) Get(ctx context.Context, name string) (JobStatus, error) {
	if err := checkSlot(name); err != nil {
		return JobStatus{}, err
	}
	var status JobStatus
	err := c.conn.Retry(ctx, func() error {
		live, err := c.live(ctx)
		if err != nil {
			return err
		}
		if status, err = c.status(ctx, name, live); err != nil || status.Shard != nil || status.State == StateInvalid {
			return err
		}
		nodes, err := c.unreadable(ctx, name) // the history, too, which status does not read
		if len(nodes) > 0 {
			status.State, status.Reason = StateInvalid, nodes[0].reason()
		}
		return err
	})
	if err != nil {
		return JobStatus{}, fmt.Errorf("job %q: %w", name, err)
	}
	return status, nil
}

// checkSlot refuses a name that cannot be that of a job or a shard.
func checkSlot(name string) error {
	return checkName(zkrec.JobOfSlot(name))
}

// readers is how many jobs, or shards of a job, are read concurrently.
const readers = 32

// List reads all jobs, sorted by name. Errors: ErrDenied, ErrUnavailable.
func (c *Client) List(ctx context.Context) ([]JobStatus, error) {
	var list []JobStatus
	err := c.conn.Retry(ctx, func() (err error) {
		list, err = c.list(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	slices.SortFunc(list, func(a, b JobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func (c *Client) list(ctx context.Context) ([]JobStatus, error) {
	live, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	names, _, err := c.conn.Children(ctx, c.tree.Root())
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil // a group that does not exist yet has no jobs
	}
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var list []JobStatus
	names = slices.DeleteFunc(names, func(name string) bool { return !zkrec.IsJob(name) })
	err = task.Each(ctx, readers, names, func(ctx context.Context, _ int, name string) error {
		status, err := c.status(ctx, name, live)
		if errors.Is(err, ErrNotFound) {
			return nil // canceled meanwhile
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, status)
		return err
	})
	return list, err
}

// AwaitOwner waits until the job, or each of its shards, has an owner, or the
// job is invalid, and returns its status. Errors: those of Get, or the cause of
// ctx if that is done first.
func (c *Client) AwaitOwner(ctx context.Context, name string) (JobStatus, error) {
	const lookAgain = time.Second // sooner if a watch fires
	var latest *JobStatus
	for {
		// The watches are set before the reading that follows.
		slot := name
		if latest != nil {
			slot = firstUnowned(*latest).Name
		}
		if _, _, err := c.conn.GetW(ctx, c.tree.Alive(slot)); err != nil { // the shard may not exist yet
			_, _, _ = c.conn.ChildrenW(ctx, c.tree.Shards(zkrec.JobOfSlot(name)))
		}
		status, err := c.Get(ctx, name)
		switch {
		case err == nil && status.State != StateUnowned:
			return status, nil
		case err == nil:
			latest = &status
		case latest == nil || !errors.Is(err, ErrUnavailable):
			return JobStatus{}, err
		}
		select {
		case <-ctx.Done():
			return JobStatus{}, fmt.Errorf("job %q has no owner yet: %s: %w", name, latest.Reason, context.Cause(ctx))
		case <-c.changed:
		case <-time.After(lookAgain):
		}
	}
}

// firstUnowned is the first shard of a job that has no owner, or the job itself.
func firstUnowned(job JobStatus) JobStatus {
	for _, shard := range job.Slots {
		if shard.State != StateOwned {
			return shard
		}
	}
	return job
}

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

// Get reads a job. Errors: *InvalidError for the name, ErrNotFound, ErrDenied,
// ErrUnavailable.
func (c *Client) Get(ctx context.Context, name string) (JobStatus, error) {
	if err := zkrec.CheckName(name); err != nil {
		return JobStatus{}, &InvalidError{"Name", name, err}
	}
	var status JobStatus
	err := c.retry(ctx, func() error {
		live, err := c.live(ctx)
		if err != nil {
			return err
		}
		status, err = c.status(ctx, name, live)
		return err
	})
	if err != nil {
		return JobStatus{}, fmt.Errorf("job %q: %w", name, err)
	}
	return status, nil
}

// readers is how many jobs List reads at a time.
const readers = 32

// List reads all jobs, sorted by name. Errors: ErrDenied, ErrUnavailable.
func (c *Client) List(ctx context.Context) ([]JobStatus, error) {
	var list []JobStatus
	err := c.retry(ctx, func() (err error) {
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
	room := make(chan struct{}, readers)
	tasks := task.NewGroup(ctx)
	for _, name := range names {
		if !zkrec.IsJob(name) {
			continue
		}
		room <- struct{}{}
		tasks.Go("read job", func(ctx context.Context) error {
			defer func() { <-room }()
			status, err := c.status(ctx, name, live)
			if errors.Is(err, ErrNotFound) {
				return nil // cancelled meanwhile
			}
			mu.Lock()
			defer mu.Unlock()
			list = append(list, status)
			return err
		})
	}
	return list, tasks.Wait()
}

// AwaitOwner waits until an instance owns the job, or it turns out that its
// record is invalid, and returns its status. The end of ctx is no error: the
// status is the latest that was read. Errors: ErrNotFound, ErrDenied, and
// ErrUnavailable when nothing could be read at all.
func (c *Client) AwaitOwner(ctx context.Context, name string) (JobStatus, error) {
	const lookAgain = time.Second // watches are a reason to look sooner
	var latest *JobStatus
	for {
		// The watches are set before the reading that follows.
		_, _, _ = c.conn.GetW(ctx, c.tree.Alive(name))
		status, err := c.Get(ctx, name)
		switch {
		case err == nil && status.State != Unowned:
			return status, nil
		case err == nil:
			latest = &status
		case latest == nil || !errors.Is(err, ErrUnavailable):
			return JobStatus{}, err
		}
		select {
		case <-ctx.Done():
			return *latest, nil
		case <-c.changed:
		case <-time.After(lookAgain):
		}
	}
}

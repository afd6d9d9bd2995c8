package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Cancel deletes a job with all its records, in one transaction, and returns
// it as it was. Its owner stops: the context of a run that goes on ends with
// the cause singleworker.ErrJobCanceled. An owner that is cut off from ZooKeeper
// cannot be told: its run goes on while its lease does, for at most 0.75 session
// timeouts, and beside those of another job that is submitted under the same
// name. Errors: ErrNotFound, ErrConflict,
// ErrDenied, ErrUnavailable.
func (c *Client) Cancel(ctx context.Context, name string) (JobStatus, error) {
	status, err := c.Get(ctx, name)
	if err != nil {
		return JobStatus{}, fmt.Errorf("cancel: %w", err)
	}
	err = c.retry(ctx, func() error {
		for range maxConflicts {
			err := c.deleteJob(ctx, name)
			moved := errors.Is(err, zkconn.ErrNotEmpty) || errors.Is(err, zkconn.ErrNoNode)
			if !moved {
				return err
			}
		}
		return ErrConflict
	})
	if err != nil {
		return JobStatus{}, fmt.Errorf("cancel %s: %w", name, uncertain(err, true))
	}
	return status, nil
}

// deleteJob deletes a job's nodes as just listed, children first. It returns
// nil when there is no such job (any more).
func (c *Client) deleteJob(ctx context.Context, name string) error {
	paths, err := c.below(ctx, c.tree.Job(name))
	if err != nil || len(paths) == 0 {
		return err
	}
	var ops []zkconn.Op
	for _, path := range paths {
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	_, err = c.conn.Multi(ctx, ops...)
	return err
}

// below lists path and everything under it, children before parents; nothing
// when there is no such node.
func (c *Client) below(ctx context.Context, path string) ([]string, error) {
	children, _, err := c.conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, child := range children {
		under, err := c.below(ctx, path+"/"+child)
		if err != nil {
			return nil, err
		}
		paths = append(paths, under...)
	}
	return append(paths, path), nil
}

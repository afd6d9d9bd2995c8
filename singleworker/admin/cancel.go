package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Cancel deletes a job with all its records and returns its last status. It takes one
// transaction, unless the job has so many shards that they do not fit in one.
// Then the job is first marked as canceled, which ends it, and deleted in several
// transactions; if that is interrupted, another Cancel completes it. The owners
// stop: contexts of runs in progress are canceled with the cause
// singleworker.ErrJobCanceled. An owner that is cut off from ZooKeeper does not
// notice: its run continues until its lease ends, for at most 0.75 session timeouts,
// possibly beside runs of another job submitted under the same name. Errors:
// *job.FieldError for the name, ErrNotFound, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) Cancel(ctx context.Context, name string) (JobStatus, error) {
	if err := checkName(name); err != nil {
		return JobStatus{}, err
	}
	status, err := c.Get(ctx, name)
	if err != nil {
		return JobStatus{}, fmt.Errorf("cancel: %w", err)
	}
	d := deletion{client: c, name: name}
	if err := c.conn.Retry(ctx, func() error { return d.run(ctx) }); err != nil {
		return JobStatus{}, fmt.Errorf("cancel %s: %w", name, uncertain(err, true))
	}
	return status, nil
}

// deletion is one Cancel over its tries. It does not delete another job that is
// submitted under the same name meanwhile.
type deletion struct {
	client *Client
	name   string
	czxid  int64 // of the job's node; 0 before it was read
}

// run deletes all nodes of the job.
func (d *deletion) run(ctx context.Context) error {
	for conflicts := 0; conflicts < maxConflicts; conflicts++ {
		again, err := d.once(ctx)
		switch {
		case again && err == nil:
			conflicts = -1 // it made progress
		case !moved(err) && !errors.Is(err, zkconn.ErrNotEmpty):
			return err
		}
	}
	return ErrConflict
}

// once deletes the job's nodes as just listed, children first: all of them if
// they fit in one transaction, else those that do, of a job that is Canceled. It
// reports whether some are left.
func (d *deletion) once(ctx context.Context) (again bool, err error) {
	conn, path := d.client.conn, d.client.tree.Job(d.name)
	data, stat, err := conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) || err == nil && d.czxid != 0 && d.czxid != stat.Czxid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.czxid = stat.Czxid
	spec, _ := zkrec.ParseSpec(d.name, data) // an unreadable spec is replaced by one that only says canceled
	paths, err := d.client.below(ctx, path)
	if err != nil || len(paths) == 0 {
		return false, err
	}
	var ops []zkconn.Op
	if spec.Canceled { // by halves, nothing else is deleted
		ops = append(ops, zkconn.CheckOp(path, stat.Version))
	}
	for _, path := range paths {
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	n := d.client.fitting(ops)
	if n < len(ops) && !spec.Canceled {
		spec.Canceled = true
		_, err = conn.Multi(ctx, zkconn.SetOp(path, spec.Encode(), stat.Version))
		return true, err
	}
	_, err = conn.Multi(ctx, ops[:n]...)
	return n < len(ops), err
}

// below lists path and everything under it, children before parents; nothing
// if the node does not exist.
func (c *Client) below(ctx context.Context, path string) ([]string, error) {
	children, _, err := c.conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	under := make([][]string, len(children))
	err = task.Each(ctx, readers, children, func(ctx context.Context, i int, child string) (err error) {
		under[i], err = c.below(ctx, path+"/"+child)
		return err
	})
	return append(slices.Concat(under...), path), err
}

// maxTransaction is how many bytes one transaction may take: the server hangs up
// on a frame of more than 1 MB.
const maxTransaction = 900_000

// fitting counts how many of the operations fit in one transaction.
func (c *Client) fitting(ops []zkconn.Op) int {
	bytes := 0
	for n, op := range ops {
		if bytes += c.conn.Size(op); bytes > maxTransaction {
			return n
		}
	}
	return len(ops)
}

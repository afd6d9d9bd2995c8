package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// declare puts a job that the application's code declares into ZooKeeper:
// created when it is absent. A job that exists is replaced only when it does
// not rest on this same declaration: an operator's change on top of it stays
// until the code says something new.
func (c *Coordinator) declare(ctx context.Context, d Declaration) error {
	spec := d.Spec
	spec.Declared = spec.Fingerprint(d.Job)
	for {
		data, stat, err := c.conn.Get(ctx, c.tree.Job(d.Job))
		if errors.Is(err, zkconn.ErrNoNode) {
			var ops []zkconn.Op
			for _, node := range c.tree.NewJob(d.Job, spec) {
				ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
			}
			_, err = c.conn.Multi(ctx, ops...)
			if errors.Is(err, zkconn.ErrNodeExists) {
				continue // somebody was faster
			}
			if err == nil {
				c.log.Info("job declared", "job", d.Job, "schedule", spec.Schedule)
			}
			return err
		}
		if err != nil {
			return err
		}
		old, err := zkrec.ParseSpec(data)
		switch {
		case errors.As(err, new(*zkrec.SchemaError)):
			return err // what a newer version wrote is not ours to replace
		case err == nil && old.Declared == spec.Declared:
			return nil
		}
		replaced := spec.Over(old, stat.Mtime, time.Now())
		if err := replaced.CheckSize(); err != nil {
			return fmt.Errorf("together with its former schedule and shards it %w", err)
		}
		_, err = c.conn.Multi(ctx, zkconn.SetOp(c.tree.Job(d.Job), replaced.Encode(), stat.Version))
		if errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err == nil {
			c.log.Warn("declaration replaced the job's record",
				"job", d.Job, "schedule", spec.Schedule, "was", string(data))
		}
		return err
	}
}

package swtest

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Cancel deletes a job with all its records in one transaction, whether or not it
// exists. Like admin.Client.Cancel it lists anew when a node has come or gone meanwhile.
func (c *Cluster) Cancel(ctx context.Context, name string) error {
	return c.write(ctx, func(ctx context.Context, conn *zkconn.Conn) error {
		for {
			paths, err := below(ctx, conn, c.tree.Job(name))
			if err != nil || len(paths) == 0 {
				return err
			}
			var ops []zkconn.Op
			for _, path := range paths {
				ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
			}
			_, err = conn.Multi(ctx, ops...)
			if !errors.Is(err, zkconn.ErrNotEmpty) && !errors.Is(err, zkconn.ErrNoNode) {
				return err
			}
		}
	})
}

// Delete deletes one node, whatever its version: what a hand may do.
func (c *Cluster) Delete(ctx context.Context, path string) error {
	return c.write(ctx, func(ctx context.Context, conn *zkconn.Conn) error {
		_, err := conn.Multi(ctx, zkconn.DeleteOp(path, zkconn.AnyVersion))
		return err
	})
}

// write repeats f until its outcome is known. A node that an earlier try has left, or
// removed, is no error.
func (c *Cluster) write(ctx context.Context, f func(context.Context, *zkconn.Conn) error) error {
	conn, err := c.operator()
	if err != nil {
		return err
	}
	retry := task.Backoff{Min: 20 * time.Millisecond, Max: time.Second}
	for again := false; ; again = true {
		err := f(ctx, conn)
		switch {
		case again && (errors.Is(err, zkconn.ErrNodeExists) || errors.Is(err, zkconn.ErrNoNode)):
			return nil
		case !zkconn.IsUnknown(err) || ctx.Err() != nil:
			return err
		}
		if err := retry.Wait(ctx); err != nil {
			return err
		}
	}
}

// operator is the connection of somebody who is no instance.
func (c *Cluster) operator() (*zkconn.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admin == nil {
		conn, err := zkconn.Open(zkconn.Config{
			Servers: servers, SessionTimeout: c.cfg.SessionTimeout,
			Dial: c.Server.Dial, Logger: c.cfg.Logger,
		}, func(zkconn.Event) {})
		if err != nil {
			return nil, err
		}
		c.admin = conn
	}
	return c.admin, nil
}

// below lists path and everything under it, children before parents.
func below(ctx context.Context, conn *zkconn.Conn, path string) ([]string, error) {
	children, _, err := conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, child := range children {
		under, err := below(ctx, conn, path+"/"+child)
		if err != nil {
			return nil, err
		}
		paths = append(paths, under...)
	}
	return append(paths, path), nil
}

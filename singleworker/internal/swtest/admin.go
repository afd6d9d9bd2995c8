package swtest

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Submit creates a job as an operator would: with package admin, on a separate connection,
// retried until the server has answered or ctx is done. It is not an error if the same job
// exists already.
func (c *Cluster) Submit(ctx context.Context, j job.Job) error {
	return c.Operate(ctx, func(client *admin.Client) error {
		_, err := client.Submit(ctx, j, admin.SubmitOptions{})
		return err
	})
}

// Cancel deletes a job; one that does not exist is not an error. Otherwise it is like Submit.
func (c *Cluster) Cancel(ctx context.Context, name string) error {
	return c.Operate(ctx, func(client *admin.Client) error {
		_, err := client.Cancel(ctx, name)
		if errors.Is(err, admin.ErrNotFound) {
			return nil
		}
		return err
	})
}

// List returns the status of each job, read from the server. (View, Owners
// and Shares read the server's log and send no requests.)
func (c *Cluster) List(ctx context.Context) (jobs []admin.JobStatus, err error) {
	err = c.Operate(ctx, func(client *admin.Client) error {
		jobs, err = client.List(ctx)
		return err
	})
	return jobs, err
}

// Operate calls f with a client that is not an instance. Each call has its own session, as
// with swctl, so concurrent calls share nothing.
func (c *Cluster) Operate(ctx context.Context, do func(*admin.Client) error) error {
	client, err := admin.Dial(ctx, admin.Config{
		Servers: c.servers(), ServerType: c.cfg.ServerType, SessionTimeout: c.cfg.SessionTimeout,
		Dial: c.Server.Dial, Logger: c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// SetLimit gives a limit so many places, as an operator would. Otherwise it is like Submit.
func (c *Cluster) SetLimit(ctx context.Context, name string, places int) error {
	return c.Operate(ctx, func(client *admin.Client) error {
		_, err := client.SetLimit(ctx, name, places, admin.NamedOptions{})
		return err
	})
}

// Overwrite writes one node regardless of its version, as a manual edit would. It tries once.
func (c *Cluster) Overwrite(ctx context.Context, path string, data []byte) error {
	return c.change(ctx, zkconn.SetOp(path, data, zkconn.AnyVersion))
}

// Rewrite writes a job's own node regardless of its version, and tells everybody. It tries once.
func (c *Cluster) Rewrite(ctx context.Context, job string, data []byte) error {
	return c.change(ctx, zkconn.SetOp(c.tree.Job(job), data, zkconn.AnyVersion), signals.OfJob(c.tree, job)...)
}

// Delete deletes one node regardless of its version, as a manual edit would. It
// tries once.
func (c *Cluster) Delete(ctx context.Context, path string) error {
	return c.change(ctx, zkconn.DeleteOp(path, zkconn.AnyVersion))
}

func (c *Cluster) change(ctx context.Context, op zkconn.Op, of ...signals.Signal) error {
	conn, err := zkconn.Open(zkconn.Config{
		Servers: c.servers(), SessionTimeout: c.cfg.SessionTimeout, Dial: c.Server.Dial, Logger: c.cfg.Logger,
	}, func(zkconn.Event) {})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = signals.Multi(ctx, conn, of, op)
	return err
}

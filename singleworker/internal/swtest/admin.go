package swtest

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Submit creates a job, as an operator does: by package admin, on a connection of its own,
// and again until the server has answered or ctx is done. A job that is there already and
// is the same is no error.
func (c *Cluster) Submit(ctx context.Context, j job.Job) error {
	return c.Operate(ctx, func(client *admin.Client) error {
		_, err := client.Submit(ctx, j, admin.SubmitOptions{})
		return err
	})
}

// Cancel deletes a job, whether or not it exists. It is otherwise like Submit.
func (c *Cluster) Cancel(ctx context.Context, name string) error {
	return c.Operate(ctx, func(client *admin.Client) error {
		_, err := client.Cancel(ctx, name)
		if errors.Is(err, admin.ErrNotFound) {
			return nil
		}
		return err
	})
}

// List tells what the records say of each job, to somebody who asks the server. (View, Owners
// and Shares read the server's log, and disturb nobody.)
func (c *Cluster) List(ctx context.Context) (jobs []admin.JobStatus, err error) {
	err = c.Operate(ctx, func(client *admin.Client) error {
		jobs, err = client.List(ctx)
		return err
	})
	return jobs, err
}

// Operate has somebody who is no instance do something. Each time is a session of its own, as
// with swctl, so that nothing is shared between two who do so at once.
func (c *Cluster) Operate(ctx context.Context, do func(*admin.Client) error) error {
	client, err := admin.Dial(ctx, admin.Config{
		Servers: servers, ServerType: c.cfg.ServerType, SessionTimeout: c.cfg.SessionTimeout,
		Dial: c.Server.Dial, Logger: c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// Delete deletes one node, whatever its version: what a hand may do, and admin does not. It
// tries once.
func (c *Cluster) Delete(ctx context.Context, path string) error {
	conn, err := zkconn.Open(zkconn.Config{
		Servers: servers, SessionTimeout: c.cfg.SessionTimeout, Dial: c.Server.Dial, Logger: c.cfg.Logger,
	}, func(zkconn.Event) {})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Multi(ctx, zkconn.DeleteOp(path, zkconn.AnyVersion))
	return err
}

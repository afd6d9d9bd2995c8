package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Submit makes the job be as asked for and returns when ZooKeeper has
// accepted it. A job that is already so is Unchanged; one that differs is
// refused with ErrExists, unless opts.Replace; one that a newer version wrote
// is refused so in any case. Errors: *InvalidError, ErrExists, ErrConflict,
// ErrDenied, ErrUnavailable. An Outcome beside an error says that the job was
// accepted and could not be read afterwards.
func (c *Client) Submit(ctx context.Context, job Job, opts SubmitOptions) (SubmitResult, error) {
	if err := Check(job, time.Now()); err != nil {
		return SubmitResult{}, err
	}
	s := submission{client: c, job: job, opts: opts}
	err := c.conn.Retry(ctx, func() error {
		return persist(func() error { return s.once(ctx) })
	})
	if err != nil {
		return SubmitResult{}, fmt.Errorf("submit %s: %w", job.Name, uncertain(err, s.wrote))
	}
	if opts.DryRun {
		s.result.Job = c.planned(job)
		return s.result, nil
	}
	status, err := c.Get(ctx, job.Name)
	s.result.Job = status
	return s.result, err
}

// planned is the status of a job that was not submitted.
func (c *Client) planned(job Job) JobStatus {
	spec := specOf(job)
	status := JobStatus{Job: jobOf(job.Name, spec), State: Unowned, Reason: "not submitted: dry run"}
	if schedule, err := parseSchedule(job); err == nil {
		status.NextRun = schedule.Next(time.Now())
	}
	return status
}

// submission is one Submit over its tries.
type submission struct {
	client *Client
	job    Job
	opts   SubmitOptions
	wrote  bool // a write was sent whose outcome is not known
	result SubmitResult
}

// once reads the job and makes the one write that is needed, if any.
func (s *submission) once(ctx context.Context) error {
	conn, tree := s.client.conn, s.client.tree
	spec := specOf(s.job)
	data, stat, err := conn.Get(ctx, tree.Job(s.job.Name))
	if errors.Is(err, zkconn.ErrNoNode) {
		return s.create(ctx, spec)
	}
	if err != nil {
		return err
	}
	old, parseErr := zkrec.ParseSpec(data)
	if parseErr == nil && old.Canceled {
		if !s.opts.DryRun {
			err = (&deletion{client: s.client, name: s.job.Name, czxid: stat.Czxid}).run(ctx)
		}
		if err != nil {
			return err
		}
		return s.create(ctx, spec)
	}
	if parseErr == nil && old.Fingerprint(s.job.Name) == spec.Fingerprint(s.job.Name) {
		if !s.wrote { // otherwise an earlier try was applied after all
			s.result = SubmitResult{Outcome: Unchanged}
		}
		return nil
	}
	if !s.opts.Replace {
		return ErrExists
	}
	if errors.As(parseErr, new(*zkrec.SchemaError)) {
		return fmt.Errorf("%w: %w", ErrExists, parseErr)
	}
	s.result = SubmitResult{Outcome: Replaced}
	if parseErr == nil {
		before := jobOf(s.job.Name, old)
		s.result.Before = &before
	}
	if s.opts.DryRun {
		return nil
	}
	spec.Declared = old.Declared // a declaration differs from the one overridden, or not
	spec = spec.Over(old, stat.Mtime, time.Now())
	if parseErr != nil {
		spec.Layout = nil // nobody knows in which shards it was run
	}
	if err := checkSize(s.job, spec.CheckSize()); err != nil {
		return err
	}
	return s.write(ctx, []zkconn.Op{zkconn.SetOp(tree.Job(s.job.Name), spec.Encode(), stat.Version)})
}

// create makes the job, which does not exist.
func (s *submission) create(ctx context.Context, spec zkrec.Spec) error {
	s.result = SubmitResult{Outcome: Created}
	if s.opts.DryRun {
		return nil
	}
	tree := s.client.tree
	if err := s.client.conn.EnsureRoot(ctx, tree.Root()); err != nil {
		return err
	}
	return s.write(ctx, newNodes(tree.NewJob(s.job.Name, spec)))
}

func (s *submission) write(ctx context.Context, ops []zkconn.Op) error {
	s.wrote = true
	_, err := s.client.conn.Multi(ctx, ops...)
	return err
}

// newNodes creates a job, or a shard, with all its nodes.
func newNodes(nodes []zkrec.Node) []zkconn.Op {
	var ops []zkconn.Op
	for _, node := range nodes {
		ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
	}
	return ops
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// errNeverAgain refuses a schedule that is over.
var errNeverAgain = errors.New("never fires again")

// Check reports, without a server, why a job would be refused: an
// *InvalidError for its name, schedule, time zone, handler or arguments, or
// because it never fires after now.
func Check(job Job, now time.Time) error {
	if err := zkrec.CheckName(job.Name); err != nil {
		return &InvalidError{"Name", job.Name, err}
	}
	if job.Handler != "" {
		if err := zkrec.CheckName(job.Handler); err != nil {
			return &InvalidError{"Handler", job.Handler, err}
		}
	}
	schedule, err := parseSchedule(job)
	if err != nil {
		return err
	}
	if schedule.Next(now).IsZero() {
		return &InvalidError{"Schedule", job.Schedule, errNeverAgain}
	}
	return checkSize(specOf(job).Encode())
}

func checkSize(record []byte) error {
	if err := zkrec.CheckSize(record); err != nil {
		return &InvalidError{"Args", fmt.Sprintf("%d bytes", len(record)), err}
	}
	return nil
}

func parseSchedule(job Job) (*cronexpr.Schedule, error) {
	loc, err := zkrec.Location(job.TimeZone)
	if err != nil {
		return nil, &InvalidError{"TimeZone", job.TimeZone, err}
	}
	schedule, err := cronexpr.Parse(job.Schedule, loc)
	if err != nil {
		return nil, &InvalidError{"Schedule", job.Schedule, err}
	}
	return schedule, nil
}

func specOf(job Job) zkrec.Spec {
	return zkrec.Spec{
		Schedule: job.Schedule, TimeZone: job.TimeZone, Handler: job.Handler, Args: maps.Clone(job.Args),
	}.Normal(job.Name)
}

func jobOf(name string, spec zkrec.Spec) Job {
	return Job{
		Name: name, Schedule: spec.Schedule, TimeZone: spec.TimeZone,
		Handler: spec.HandlerOf(name), Args: spec.Args,
	}
}

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
	if err := c.retry(ctx, func() error { return s.try(ctx) }); err != nil {
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

// maxConflicts is how often a job may change under a submit.
const maxConflicts = 10

func (s *submission) try(ctx context.Context) error {
	for range maxConflicts {
		err := s.once(ctx)
		moved := errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) ||
			errors.Is(err, zkconn.ErrNodeExists)
		if !moved {
			return err
		}
	}
	return ErrConflict
}

// once reads the job and makes the one write that is needed, if any.
func (s *submission) once(ctx context.Context) error {
	conn, tree := s.client.conn, s.client.tree
	spec := specOf(s.job)
	data, stat, err := conn.Get(ctx, tree.Job(s.job.Name))
	if errors.Is(err, zkconn.ErrNoNode) {
		s.result = SubmitResult{Outcome: Created}
		if s.opts.DryRun {
			return nil
		}
		if err := conn.EnsureRoot(ctx, tree.Root()); err != nil {
			return err
		}
		return s.write(ctx, newJobOps(tree, s.job.Name, spec))
	}
	if err != nil {
		return err
	}
	old, parseErr := zkrec.ParseSpec(data)
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
	record := spec.Over(old, stat.Mtime, time.Now()).Encode()
	if err := checkSize(record); err != nil {
		return err
	}
	return s.write(ctx, []zkconn.Op{zkconn.SetOp(tree.Job(s.job.Name), record, stat.Version)})
}

func (s *submission) write(ctx context.Context, ops []zkconn.Op) error {
	s.wrote = true
	_, err := s.client.conn.Multi(ctx, ops...)
	return err
}

// newJobOps creates a job with all its nodes.
func newJobOps(tree zkrec.Tree, job string, spec zkrec.Spec) []zkconn.Op {
	var ops []zkconn.Op
	for _, node := range tree.NewJob(job, spec) {
		ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
	}
	return ops
}

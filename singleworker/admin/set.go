package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Changes says what Set changes of a job; see Job for the fields. What is nil
// stays as it is, and a pointer to a zero value sets the default.
type Changes struct {
	Schedule *string
	TimeZone *string
	Handler  *string
	// Args are set beside those that the job has; DropArgs are removed, before.
	Args     map[string]string
	DropArgs []string
	// Payload replaces the job's; a pointer to nothing removes it.
	Payload *json.RawMessage

	// Shards says how many there are to be. Set does not make a job undivided
	// that has shards.
	Shards *int
	// ShardParameters are set beside those that the job has; an empty one
	// removes that of its shard. One of a shard that is no more is refused.
	ShardParameters map[int]string

	Misfire      *string
	MisfireGrace *time.Duration
	Interrupted  *string
	MaxAttempts  *int
	Overlap      *string
	Timeout      *time.Duration
	Retries      *int
	Backoff      *time.Duration
	AlarmAfter   *time.Duration
}

// Apply returns the job with the changes made.
func (ch Changes) Apply(job Job) Job {
	put(&job.Schedule, ch.Schedule)
	put(&job.TimeZone, ch.TimeZone)
	put(&job.Handler, ch.Handler)
	put(&job.Payload, ch.Payload)
	put(&job.Shards, ch.Shards)
	put(&job.Misfire, ch.Misfire)
	put(&job.MisfireGrace, ch.MisfireGrace)
	put(&job.Interrupted, ch.Interrupted)
	put(&job.MaxAttempts, ch.MaxAttempts)
	put(&job.Overlap, ch.Overlap)
	put(&job.Timeout, ch.Timeout)
	put(&job.Retries, ch.Retries)
	put(&job.Backoff, ch.Backoff)
	put(&job.AlarmAfter, ch.AlarmAfter)
	if len(ch.Args)+len(ch.DropArgs) > 0 {
		args := map[string]string{}
		maps.Copy(args, job.Args)
		maps.DeleteFunc(args, func(key, _ string) bool { return slices.Contains(ch.DropArgs, key) })
		maps.Copy(args, ch.Args)
		job.Args = args
	}
	if len(ch.ShardParameters) > 0 {
		params := map[int]string{}
		maps.Copy(params, job.ShardParameters)
		maps.Copy(params, ch.ShardParameters)
		maps.DeleteFunc(params, func(_ int, param string) bool { return param == "" }) // as good as none
		job.ShardParameters = params
	}
	return job
}

func put[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// SetOptions changes what Set does. The zero value makes the change.
type SetOptions struct {
	// DryRun checks and reports what would be changed, and writes nothing.
	DryRun bool
}

// errUndivided refuses what Set does not do.
var errUndivided = errors.New("would make a job undivided that has shards: cancel it and submit it again, or declare it so in code")

// Set changes a job that exists in part, whoever else changes other parts of
// it at the same time, and returns when ZooKeeper has accepted it. A new
// schedule takes effect at once; the ticks of the old one that nobody has
// accounted for are recorded as not run. Other shards take effect when the
// ticks are done that a shard has claimed already: see JobStatus.Resizing. A job
// that is declared in code stays as it is set until its declaration changes. The
// Outcome is Changed or Unchanged.
// Errors: *InvalidError, ErrNotFound, ErrUnreadable, ErrConflict, ErrDenied,
// ErrUnavailable. An Outcome beside an error says that the change was accepted
// and the job could not be read afterwards.
func (c *Client) Set(ctx context.Context, name string, changes Changes, opts SetOptions) (SubmitResult, error) {
	e := edit{client: c, name: name, dryRun: opts.DryRun}
	e.change = func(old zkrec.Spec, mtime time.Time) (zkrec.Spec, error) {
		before := jobOf(name, old)
		job := changes.Apply(before)
		if before.Shards > 0 && job.Shards == 0 {
			return zkrec.Spec{}, &InvalidError{"Shards", "0", errUndivided}
		}
		schedule, err := checkFields(job)
		if err != nil {
			return zkrec.Spec{}, err
		}
		moved := job.Schedule != before.Schedule || job.TimeZone != before.TimeZone
		if now := time.Now(); moved && schedule.Next(now).IsZero() {
			return zkrec.Spec{}, &InvalidError{"Schedule", job.Schedule, errNeverAgain}
		}
		spec := specOf(job)
		spec.Declared = old.Declared
		if spec.Fingerprint(name) == old.Fingerprint(name) {
			return old, nil // whatever the defaults were written as
		}
		return spec.Over(old, mtime, time.Now()), nil
	}
	if err := e.run(ctx); err != nil {
		return SubmitResult{}, fmt.Errorf("set %s: %w", name, err)
	}
	result := SubmitResult{Outcome: Unchanged}
	if e.changed {
		result.Outcome, result.Before = Changed, &e.before
	}
	status, err := c.Get(ctx, name)
	if e.changed || opts.DryRun { // as it was written: somebody else may have changed it since
		status.Job = e.after
	}
	if opts.DryRun {
		if schedule, err := parseSchedule(status.Job); err == nil {
			status.NextRun = nextRun(schedule, status.Paused, time.Now())
		}
	}
	result.Job = status
	return result, err
}

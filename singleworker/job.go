package singleworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Job declares a job in code; see Manager.Schedule.
type Job = job.Job

// Handler does the work of one run. Its context ends when the right to run
// does, with the reason as its cause: ErrLeaseLost, ErrStopping, ErrTimeout,
// ErrStopped or ErrJobCanceled. An error, a panic or runtime.Goexit makes the
// run a failed one; it is recorded and logged, repeated if Job.Retries says so,
// and the job goes on with its next tick.
type Handler func(ctx context.Context, run *Run) error

// Run is one execution of a handler, for a tick that was claimed for it.
type Run struct {
	ID         string            // unique
	Job        string            // the job's name
	Tick       time.Time         // the scheduled time, in the job's zone; of a manual run, when it was asked for
	Manual     bool              // an operator asked for the run
	Attempt    int               // of this tick, from 1: counts retries, and reruns of what was interrupted
	Token      int64             // fencing token: grows with every change of the owner of the job; of the shard, if it has shards, and then those of two shards say nothing of each other
	InstanceID string            // this instance
	Shard      Shard             // what part of the work is this run's
	Args       map[string]string // the job's arguments and, over them, those of a manual run; the run's own copy
	Payload    json.RawMessage   // the job's payload, or that of a manual run

	log *slog.Logger
}

// Shard is the part of a job's work that one run does: of what can be numbered,
// whatever has id % Total == Index.
type Shard struct {
	Index     int    // from 0
	Total     int    // Job.Shards as this tick has it; 1 when the job is not divided
	Parameter string // from Job.ShardParameters
}

// Logger returns Config.Logger, or slog.Default(), with what says which run it
// is: job (of a shard, such as "report[3]"), run_id, tick and token. That of a
// Run made by hand, in a handler's own test, is silent.
func (r *Run) Logger() *slog.Logger {
	if r.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.log
}

// JSONHandler makes a handler of a function that takes the job's payload as a
// T. A payload that is no T makes the run a failed one; a job without a payload
// gets the zero T.
func JSONHandler[T any](f func(ctx context.Context, run *Run, payload T) error) Handler {
	return func(ctx context.Context, run *Run) error {
		var payload T
		if len(run.Payload) > 0 {
			if err := json.Unmarshal(run.Payload, &payload); err != nil {
				return fmt.Errorf("payload of job %q: %w", run.Job, err)
			}
		}
		return f(ctx, run, payload)
	}
}

// refused names, to users of Config and Job, the field that is not valid.
func refused(err error) error {
	if field := new(job.FieldError); errors.As(err, &field) {
		return &ConfigError{Field: "Job." + field.Field, Value: field.Value, Err: field.Err}
	}
	return err
}

// shardOf is the part of the job's work that a slot does.
func shardOf(slot string, spec zkrec.Spec) Shard {
	layout := spec.ActiveLayout()
	_, index, _ := zkrec.SplitSlot(slot)
	return Shard{Index: index, Total: max(1, layout.Shards), Parameter: layout.ShardParams[index]}
}

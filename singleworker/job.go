package singleworker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Job declares a job in code; see Manager.Schedule.
type Job = job.Job

// Handler does the work of one run. When the run loses its right to run, ctx is
// canceled with the reason as its cause: ErrLeaseLost, ErrStopping, ErrTimeout,
// ErrStopped, ErrMoved or ErrJobCanceled. A run fails if its handler returns an error,
// panics or calls runtime.Goexit. A failed run is recorded, logged, and repeated
// according to Job.Retries; the job continues with its next tick.
type Handler func(ctx context.Context, run *Run) error

// Resolver tells whether the effects of a tick are there although its run was interrupted: the
// instance died, or lost the job, between them and the record of the result. The next attempt asks
// it before the handler, and gives it the handler's Run: with the group, the slot, the tick and the
// request of the interrupted run, and with its own ID, attempt and token. If found is true, that
// attempt is ok, with these effects, and the handler is not called. If it is false, the handler
// is called: the answer must stay true whatever the interrupted run still does, which may only be
// slow. So a resolver has to shut that run out first, by the token, as once.Resolver does.
//
// After an error, or without an answer within 10 s, nobody knows: Job.Interrupted decides. ctx ends
// then, or with the right to run. At most 16 are asked at a time, and wait for that as part of the
// 10 s. One that panics has no answer. One that does not return is left behind, is not asked about
// that slot again until it does, and has Run end with a *StuckError.
type Resolver func(ctx context.Context, run *Run) (effects Effects, found bool, err error)

// Effects says by which run the effects of a tick came about, and when.
type Effects = history.Effects

// Run is one execution of a handler for a claimed tick.
type Run struct {
	ID         string            // unique
	Group      string            // Config.ServerType
	Job        string            // the job's name
	Slot       string            // the owned unit: the job, or its shard as in "report[3]", or of a job on every instance "report/app-1"
	Tick       time.Time         // the scheduled time, in the job's time zone; for a manual run that is not of a past tick, when it was requested
	Manual     bool              // requested by an operator
	Past       history.Past      // of a manual run of a past tick: why that was asked for; otherwise empty
	Request    string            // ID of the request for a manual run, which its retries have, too; otherwise empty
	Attempt    int               // attempt at this tick, from 1: counts retries and reruns after interruptions
	Token      int64             // fencing token: grows with every change of the owner of the job, or of the shard; tokens of two shards cannot be compared
	InstanceID string            // this instance
	Shard      Shard             // the run's part of the work
	Everywhere bool              // the job runs on every instance: this is the run of this one
	BeforeTick bool              // the handler is called as Job.BeforeTick, in the run of shard 0
	Args       map[string]string // the job's arguments, overridden by those of a manual run; a copy
	Payload    json.RawMessage   // the job's payload, or that of a manual run

	log func() *slog.Logger // made when it is asked for: that takes longer than most of what else a run costs
}

// Shard is the part of a job's work that one run does. If the work items have
// numeric IDs, for example, those with id % Total == Index.
type Shard struct {
	Index     int    // from 0
	Total     int    // number of shards for this tick; 1 if the job has no shards
	Parameter string // from Job.ShardParameters
}

// Logger returns Config.Logger, or slog.Default(), with attributes that identify
// the run: job (for a shard, "report[3]"), run_id, tick and token. A zero Run, as
// in a unit test, returns a logger that discards everything.
func (r *Run) Logger() *slog.Logger {
	if r.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.log()
}

// JSONHandler returns a handler that decodes the job's payload into a T and calls
// f. If the payload cannot be decoded, the run fails. Without a payload, f gets
// the zero T.
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

// shardOf returns a slot's part of the job's work.
func shardOf(slot string, spec *zkrec.Spec) Shard {
	layout := spec.ActiveLayout()
	_, index, _ := zkrec.SplitSlot(slot)
	return Shard{Index: index, Total: max(1, layout.Shards), Parameter: layout.ShardParams[index]}
}

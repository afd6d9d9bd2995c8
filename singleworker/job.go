package singleworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Job declares a job in code; see Manager.Schedule.
type Job struct {
	// Name identifies the job in its group: 1 to 200 bytes of printable
	// UTF-8 without '/', not ".", "..", nor beginning with '_' or ending like
	// "[3]", which names a shard.
	Name string
	// Schedule is Quartz cron (6 or 7 fields), crontab (5 fields), @daily and
	// the like, "@every 90s" or "@at 2026-12-24T18:00:00+01:00"; see
	// package cronexpr.
	Schedule string
	// TimeZone is an IANA name such as "Europe/Berlin". Default: UTC.
	TimeZone string
	// Handler names the function that runs the job. Default: the job's name.
	Handler string
	// Args are handed to the handler.
	Args map[string]string
	// Payload is JSON that is handed to the handler; see JSONHandler.
	Payload json.RawMessage

	// Shards divides the job: each tick is run by every shard, 0 to Shards-1,
	// once, on whichever instance owns the shard; see Run.Shard. 1 to 1024;
	// default 0: the job is not divided. When it changes, ticks that some shard
	// has claimed already are run by all shards as they were, and the change
	// takes effect when the last of these runs has ended.
	Shards int
	// ShardParameters says, by index, what a shard works on: see
	// Shard.Parameter. A shard may have none. A change is one of the shards.
	ShardParameters map[int]string

	// Misfire says what becomes of ticks that nobody claimed within a second,
	// because no owner was there. Default: MisfireOnce.
	Misfire MisfirePolicy
	// MisfireGrace is how old a tick may be to be run at all; older ones are
	// recorded as missed. Default: no bound.
	MisfireGrace time.Duration
	// Interrupted says what becomes of a run whose instance died, lost the job
	// or stopped before it was done. Default: InterruptedRerun.
	Interrupted InterruptedPolicy
	// MaxAttempts is how often the same tick is begun when its runs are
	// interrupted: a job that kills its instances does not kill them all. 1 to
	// 100, default 3.
	MaxAttempts int
	// Overlap says what becomes of a tick that comes while a run goes on.
	// Default: OverlapSkip.
	Overlap OverlapPolicy
	// Timeout ends the context of a run with ErrTimeout. Default: none.
	Timeout time.Duration
	// Retries is how often a run that failed or timed out is repeated, within
	// its tick: a retry that would begin at or after the next tick is not made,
	// nor is one of a manual run. Up to 100, default 0.
	Retries int
	// Backoff is the pause before the first retry; it doubles with each.
	// Default 1 s.
	Backoff time.Duration
	// AlarmAfter is how late a tick is, neither claimed nor recorded as not
	// run, when the other instances report it: see Hooks.OnTickMissed. Default
	// 1 minute.
	AlarmAfter time.Duration
}

// MisfirePolicy is the type of Job.Misfire.
type MisfirePolicy string

// The misfire policies.
const (
	MisfireOnce MisfirePolicy = "once" // the latest of the missed ticks is run
	MisfireSkip MisfirePolicy = "skip" // none is
	MisfireAll  MisfirePolicy = "all"  // each is, in order; of more than 100 the latest
)

// InterruptedPolicy is the type of Job.Interrupted.
type InterruptedPolicy string

// The policies for interrupted runs.
const (
	InterruptedRerun InterruptedPolicy = "rerun" // the tick is run again, as its next attempt
	InterruptedSkip  InterruptedPolicy = "skip"  // it is not; the history says that it was interrupted, or is lost
)

// OverlapPolicy is the type of Job.Overlap.
type OverlapPolicy string

// The overlap policies.
const (
	OverlapSkip  OverlapPolicy = "skip"  // the tick is recorded as skipped
	OverlapQueue OverlapPolicy = "queue" // it is run right after; the latest, if there are several
)

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

// specOf checks a declared job and returns its record.
func specOf(j Job) (zkrec.Spec, error) {
	if err := zkrec.CheckJobName(j.Name); err != nil {
		return zkrec.Spec{}, &ConfigError{Field: "Job.Name", Value: j.Name, Err: err}
	}
	if j.Handler != "" {
		if err := zkrec.CheckName(j.Handler); err != nil {
			return zkrec.Spec{}, &ConfigError{Field: "Job.Handler", Value: j.Handler, Err: err}
		}
	}
	spec := zkrec.Spec{
		Schedule: j.Schedule, TimeZone: j.TimeZone, Handler: j.Handler, Args: maps.Clone(j.Args),
		Payload: slices.Clone(j.Payload), Sharding: zkrec.Sharding{Shards: j.Shards, ShardParams: maps.Clone(j.ShardParameters)},
		Policy: zkrec.Policy{
			Misfire: string(j.Misfire), MisfireGrace: zkrec.Duration(j.MisfireGrace),
			Interrupted: string(j.Interrupted), MaxAttempts: j.MaxAttempts, Overlap: string(j.Overlap),
			Timeout: zkrec.Duration(j.Timeout), Retries: j.Retries, Backoff: zkrec.Duration(j.Backoff),
			AlarmAfter: zkrec.Duration(j.AlarmAfter),
		},
	}.Normal(j.Name)
	if _, err := ticks.JobOf(spec, 0); err != nil {
		return zkrec.Spec{}, configError(err)
	}
	written := spec
	written.Declared = spec.Fingerprint(j.Name)
	record := written.Encode()
	if err := zkrec.CheckSize(record); err != nil {
		return zkrec.Spec{}, &ConfigError{Field: "Job.Args", Value: fmt.Sprintf("%d bytes", len(record)), Err: err}
	}
	return spec, nil
}

func configError(err error) error {
	var field *zkrec.FieldError
	if errors.As(err, &field) {
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

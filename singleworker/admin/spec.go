package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// errNeverAgain refuses a schedule that is over.
var errNeverAgain = errors.New("never fires again")

// Check reports, without a server, why a job would be refused: an
// *InvalidError that names the field, also for a schedule that never fires
// after now.
func Check(job Job, now time.Time) error {
	schedule, err := checkFields(job)
	if err != nil {
		return err
	}
	if schedule.Next(now).IsZero() {
		return &InvalidError{"Schedule", job.Schedule, errNeverAgain}
	}
	return nil
}

// checkFields is Check without regard to the time.
func checkFields(job Job) (*cronexpr.Schedule, error) {
	if err := zkrec.CheckJobName(job.Name); err != nil {
		return nil, &InvalidError{"Name", job.Name, err}
	}
	if job.Handler != "" {
		if err := zkrec.CheckName(job.Handler); err != nil {
			return nil, &InvalidError{"Handler", job.Handler, err}
		}
	}
	schedule, err := parseSchedule(job)
	if err != nil {
		return nil, err
	}
	if err := checkPayload(job.Payload); err != nil { // before it is encoded
		return nil, err
	}
	spec := specOf(job)
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	return schedule, checkSize(job, spec.CheckSize())
}

// checkPayload wants one JSON value, or nothing.
func checkPayload(payload json.RawMessage) error {
	if len(payload) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(payload, &value); err != nil {
		return &InvalidError{"Payload", excerpt(payload), fmt.Errorf("is not JSON: %w", err)}
	}
	return nil
}

// excerpt is as much of an input as fits in an error.
func excerpt(text []byte) string {
	const limit = 40
	if len(text) > limit {
		return string(text[:limit]) + "..."
	}
	return string(text)
}

// checkSize blames, when a record is too long, what takes most.
func checkSize(job Job, err error) error {
	var tooLong *zkrec.SizeError
	if !errors.As(err, &tooLong) {
		return err
	}
	field, args, params := "Args", 0, 0
	for key, value := range job.Args {
		args += len(key) + len(value)
	}
	for _, value := range job.ShardParameters {
		params += len(value)
	}
	switch max(args, params, len(job.Payload)) {
	case args:
	case params:
		field = "ShardParameters"
	default:
		field = "Payload"
	}
	return &InvalidError{field, fmt.Sprintf("%d bytes", tooLong.Bytes), err}
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

func policyOf(job Job) zkrec.Policy {
	return zkrec.Policy{
		Misfire: job.Misfire, MisfireGrace: zkrec.Duration(job.MisfireGrace),
		Interrupted: job.Interrupted, MaxAttempts: job.MaxAttempts, Overlap: job.Overlap,
		Timeout: zkrec.Duration(job.Timeout), Retries: job.Retries,
		Backoff: zkrec.Duration(job.Backoff), AlarmAfter: zkrec.Duration(job.AlarmAfter),
	}
}

// specOf is what a job is written as; defaults are not.
func specOf(job Job) zkrec.Spec {
	return zkrec.Spec{
		Schedule: job.Schedule, TimeZone: job.TimeZone, Handler: job.Handler, Args: maps.Clone(job.Args),
		Payload: job.Payload, Policy: policyOf(job),
		Sharding: zkrec.Sharding{Shards: job.Shards, ShardParams: maps.Clone(job.ShardParameters)},
	}.Normal(job.Name)
}

// jobOf is the job of a record, with the defaults filled in.
func jobOf(name string, spec zkrec.Spec) Job {
	policy := spec.Full()
	return Job{
		Name: name, Schedule: spec.Schedule, TimeZone: spec.TimeZone,
		Handler: spec.HandlerOf(name), Args: spec.Args, Payload: spec.Payload,
		Shards: spec.Shards, ShardParameters: spec.ShardParams,
		Misfire: policy.Misfire, MisfireGrace: time.Duration(policy.MisfireGrace),
		Interrupted: policy.Interrupted, MaxAttempts: policy.MaxAttempts, Overlap: policy.Overlap,
		Timeout: time.Duration(policy.Timeout), Retries: policy.Retries,
		Backoff: time.Duration(policy.Backoff), AlarmAfter: time.Duration(policy.AlarmAfter),
	}
}

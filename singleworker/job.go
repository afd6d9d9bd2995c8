package singleworker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Job declares a job in code; see Manager.Schedule.
type Job struct {
	// Name identifies the job in its group: 1 to 200 bytes of printable
	// UTF-8 without '/', not ".", "..", nor beginning with '_'.
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
}

// Handler does the work of one run. Its context ends when the right to run
// does, with the reason as its cause: ErrLeaseLost, ErrStopping or
// ErrJobCanceled. An error, or a panic, makes the run a failed one; it is
// recorded and logged, and the job goes on with its next tick.
type Handler func(ctx context.Context, run *Run) error

// Run is one execution of a handler, for a tick that was claimed for it.
type Run struct {
	ID         string            // unique
	Job        string            // the job's name
	Tick       time.Time         // the scheduled time, in the job's zone
	Attempt    int               // from 1
	Token      int64             // fencing token: grows with every change of the job's owner
	InstanceID string            // this instance
	Args       map[string]string // the job's arguments; the run's own copy

	log *slog.Logger
}

// Logger returns a logger that says which run it is: job_name, run_id, tick
// and token. That of a Run made by hand, in a handler's own test, is silent.
func (r *Run) Logger() *slog.Logger {
	if r.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.log
}

// specOf checks a declared job and returns its record.
func specOf(j Job) (zkrec.Spec, error) {
	if err := zkrec.CheckName(j.Name); err != nil {
		return zkrec.Spec{}, &ConfigError{Field: "Job.Name", Value: j.Name, Err: err}
	}
	if j.Handler != "" {
		if err := zkrec.CheckName(j.Handler); err != nil {
			return zkrec.Spec{}, &ConfigError{Field: "Job.Handler", Value: j.Handler, Err: err}
		}
	}
	spec := zkrec.Spec{
		Schedule: j.Schedule, TimeZone: j.TimeZone, Handler: j.Handler, Args: maps.Clone(j.Args),
	}.Normal(j.Name)
	if _, err := parseSchedule(spec); err != nil {
		return zkrec.Spec{}, err
	}
	written := spec
	written.Declared = spec.Fingerprint(j.Name)
	record := written.Encode()
	if err := zkrec.CheckSize(record); err != nil {
		return zkrec.Spec{}, &ConfigError{Field: "Job.Args", Value: fmt.Sprintf("%d bytes", len(record)), Err: err}
	}
	return spec, nil
}

// parseSchedule reads a record's schedule in its zone.
func parseSchedule(spec zkrec.Spec) (*cronexpr.Schedule, error) {
	loc, err := zkrec.Location(spec.TimeZone)
	if err != nil {
		return nil, &ConfigError{Field: "Job.TimeZone", Value: spec.TimeZone, Err: err}
	}
	schedule, err := cronexpr.Parse(spec.Schedule, loc)
	if err != nil {
		return nil, &ConfigError{Field: "Job.Schedule", Value: spec.Schedule, Err: err}
	}
	return schedule, nil
}

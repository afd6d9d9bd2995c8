package ticks

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Job is a job as its ticks are judged: a spec, parsed once per version.
type Job struct {
	SpecVersion int32 // of the node that it was parsed from: commits check it

	Schedule *cronexpr.Schedule
	Since    time.Time // ticks up to here do not belong to Schedule
	// Former, if not nil, was in effect between FormerSince and Since.
	Former      *cronexpr.Schedule
	FormerSince time.Time
	Policy      Policy      // the zero value of a field means its default
	Paused      zkrec.Pause // the zero Pause: never

	// From and To bound the ticks of a slot whose job is, or was, resharded: those up to From and
	// those after To belong to other layouts; see zkrec.Layout. Zero: no bound.
	From, To time.Time
}

// JobOf parses a spec with Since set, at the given version of its node. What it refuses, as a
// *job.FieldError, can never run.
func JobOf(spec zkrec.Spec, version int32) (Job, error) {
	if err := spec.Check(); err != nil {
		return Job{}, err
	}
	schedule, err := spec.Job.ParseSchedule()
	if err != nil {
		return Job{}, err
	}
	parsed := Job{SpecVersion: version, Schedule: schedule, Since: time.UnixMilli(spec.Since), Policy: spec.Job}
	layout := spec.ActiveLayout()
	if layout.Since != 0 {
		parsed.From = time.UnixMilli(layout.Since)
	}
	if spec.Resizing() {
		parsed.To = time.UnixMilli(layout.Until)
	}
	if spec.Paused != nil {
		parsed.Paused = *spec.Paused
	}
	if f := spec.Former; f != nil {
		// A former schedule that this version cannot parse has no ticks that it could name.
		if parsed.Former, err = (job.Job{Schedule: f.Schedule, TimeZone: f.TimeZone}).ParseSchedule(); err == nil {
			parsed.FormerSince = time.UnixMilli(f.Since)
		}
	}
	return parsed, nil
}

// begins is the time up to which no tick of the current schedule belongs to the slot.
func (j Job) begins() time.Time { return later(j.Since, j.From) }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ends reports whether the job is about to be resharded: no tick after To is run.
func (j Job) ends() bool { return !j.To.IsZero() }

// nextTick is the first tick of the slot after t, or zero.
func (j Job) nextTick(t time.Time) time.Time {
	next := j.Schedule.Next(later(t, j.begins()))
	if j.ends() && next.After(j.To) {
		return time.Time{}
	}
	return next
}

package ticks

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Job is the part of a job that decides on its ticks: a spec, parsed once per version. It is
// shared, and not changed.
type Job struct {
	Version Version // commits check it

	Schedule *cronexpr.Schedule
	Since    time.Time // Schedule's first tick is after this time
	// Former are the replaced schedules, the latest first: each was in effect until the next one's
	// Since, the first until Since.
	Former []Former
	Policy *Policy      // of the spec; the zero value of a field means its default
	Paused *zkrec.Pause // of the switch; nil means never paused
	// Frozen are the last spans in which the group was frozen and the job was not excepted, the oldest
	// first.
	Frozen []zkrec.Pause

	// From and To bound the ticks of a slot whose job is being or was resharded: ticks up to From and
	// ticks after To belong to other layouts; see zkrec.Layout. Zero means no bound.
	From, To time.Time

	// Group and Slot say by how much a tick is delayed, of a job with Jitter. Of sets the slot.
	Group, Slot string

	// Gated means that the first shard calls BeforeTick, and the others wait for it. Gate is such a
	// shard's view of the first one, see Of.
	Gated bool
	Gate  *Gate
}

// Version is the versions of the two nodes that define a job and operators' orders for it, of the
// calendars that it names, and of the group's freeze.
type Version struct {
	Spec, Switch, Freeze int32

	Named zkrec.NodeVersions
}

// Former is a schedule that was replaced.
type Former struct {
	Schedule *cronexpr.Schedule // nil if this version cannot parse it
	MaxRuns  int
	Since    time.Time
}

// JobOf parses the spec of a job of a group, with Since, Switch and the calendars set, at the given
// version, and keeps it. A spec that cannot run is refused with an *invalid.FieldError.
func JobOf(group string, spec *zkrec.Spec, version Version) (Job, error) {
	if err := spec.Check(); err != nil {
		return Job{}, err
	}
	schedule, err := spec.Job.ParseSchedule()
	if err != nil {
		return Job{}, err
	}
	parsed := Job{
		Version: version, Group: group, Slot: spec.Job.Name, Schedule: schedule, Since: time.UnixMilli(spec.Since), Policy: &spec.Job, Paused: spec.Switch.Paused,
	}
	layout := spec.ActiveLayout()
	parsed.Gated = layout.BeforeTick != ""
	if layout.Since != 0 {
		parsed.From = time.UnixMilli(layout.Since)
	}
	if spec.Resizing() {
		parsed.To = time.UnixMilli(layout.Until)
	}
	for f := spec.Former; f != nil; f = f.Former {
		// If this version cannot parse a former schedule, it cannot tell its ticks.
		former, _ := f.Job(spec.Job).ParseSchedule()
		parsed.Former = append(parsed.Former, Former{former, f.MaxRuns, time.UnixMilli(f.Since)})
	}
	return parsed, nil
}

// begins is the time after which the slot's ticks of the current schedule begin.
func (j Job) begins() time.Time { return Later(j.Since, j.From) }

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ends reports whether the job is being resharded: no tick after To is run.
func (j Job) ends() bool { return !j.To.IsZero() }

// nextTick is the first tick of the slot after t, or zero.
func (j Job) nextTick(t time.Time) time.Time {
	next := j.Schedule.Next(Later(t, j.begins()))
	if j.ends() && next.After(j.To) {
		return time.Time{}
	}
	return next
}

package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ticks is the job as the rules of ticks have it, of one slot and by its record.
func (of parsed) ticks(r records) ticks.Job {
	job := ticksOf(of.spec, of.schedule, of.spec.Since)
	job.Group, job.Frozen = of.group, of.frozen
	return job.Of(r.slot, r.gate).By(r.tick)
}

// ticksOf is that of all slots; the schedule's ticks begin after since.
func ticksOf(spec zkrec.Spec, schedule *cronexpr.Schedule, since int64) ticks.Job {
	return ticks.Job{
		Schedule: schedule, Since: time.UnixMilli(since), Policy: &spec.Job, Paused: spec.Switch.Paused,
		Gated: spec.ActiveLayout().BeforeTick != "",
	}
}

// overdue returns the first tick that is not accounted for and late by the job's
// AlarmAfter, by the same rules as the instances; zero if no tick is overdue.
// record says which ticks are accounted for.
func overdue(job ticks.Job, record zkrec.Tick, running bool, now time.Time) time.Time {
	tick, _ := ticks.Overdue(job, record, running, now)
	return tick
}

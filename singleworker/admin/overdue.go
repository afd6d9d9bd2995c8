package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// overdue returns the first tick that is not accounted for and late by the job's
// AlarmAfter, by the same rules as the instances; zero if no tick is overdue.
// record says which ticks are accounted for; the schedule's ticks begin after since.
func overdue(spec zkrec.Spec, schedule *cronexpr.Schedule, since int64, record zkrec.Tick, running bool, now time.Time) time.Time {
	job := ticks.Job{Schedule: schedule, Since: time.UnixMilli(since), Policy: &spec.Job, Paused: spec.Paused}
	tick, _ := ticks.Overdue(job, record, running, now)
	return tick
}

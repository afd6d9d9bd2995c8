package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// overdue is the first tick that nobody has accounted for although it is late
// by the job's AlarmAfter, as the instances judge it; zero when there is none.
// Ticks up to through are accounted for, those up to since are not the job's.
func overdue(spec zkrec.Spec, schedule *cronexpr.Schedule, since, through int64, running bool, now time.Time) time.Time {
	job := ticks.Job{Schedule: schedule, Since: time.UnixMilli(since), Policy: spec.Job}
	if spec.Paused != nil {
		job.Paused = *spec.Paused
	}
	tick, _ := ticks.Overdue(job, ticks.Record{Watermark: through}, running, now)
	return tick
}

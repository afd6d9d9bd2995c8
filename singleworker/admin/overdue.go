package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// overdue is the first tick that nobody has accounted for although it is late
// by the job's AlarmAfter; zero when there is none. Ticks up to through are
// accounted for, those up to since are not the job's. The ticks of a pause are
// due when it is over. Nothing is overdue while a run goes on: what comes
// meanwhile is accounted for when it ends.
func overdue(spec zkrec.Spec, schedule *cronexpr.Schedule, since, through int64, running bool, now time.Time) time.Time {
	if running || pausedAt(spec.Paused, now) {
		return time.Time{}
	}
	tick := schedule.Next(time.UnixMilli(max(since, through)))
	due := tick
	if pausedAt(spec.Paused, tick) {
		due = time.UnixMilli(spec.Paused.Until)
	}
	if tick.IsZero() || now.Before(due.Add(time.Duration(spec.Full().AlarmAfter))) {
		return time.Time{}
	}
	return tick
}

// pausedAt reports whether a pause is in force at t.
func pausedAt(pause *zkrec.Pause, t time.Time) bool {
	return pause != nil && pause.Since <= t.UnixMilli() && (pause.Until == 0 || t.UnixMilli() < pause.Until)
}

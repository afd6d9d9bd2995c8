package ticks

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Runs is how many ticks of a schedule that holds since a time were claimed, by the slot's record.
// The record counts for one schedule.
func Runs(r Record, since time.Time) int {
	if r.RunsSince != since.UnixMilli() {
		return 0
	}
	return r.Runs
}

// Spent reports whether as many ticks were claimed as the job may claim.
func (j Job) Spent(r Record) bool {
	return j.Policy.MaxRuns > 0 && Runs(r, j.Since) >= j.Policy.MaxRuns
}

// Finite reports whether the job is done after its last tick: it is a one-shot, or has an end. One
// that runs on every instance has no end that they share.
func (j Job) Finite() bool {
	return j.Schedule.Once() || !j.Policy.Everywhere && (!j.Policy.NotAfter.IsZero() || j.Policy.MaxRuns > 0)
}

// By is the job as a slot's record leaves it: it has no tick after the last one that it may claim.
func (j Job) By(r Record) Job {
	if j.Spent(r) {
		j.Schedule = j.Schedule.Within(time.Time{}, time.UnixMilli(r.Watermark))
	}
	return j
}

// count writes into a record that begins a run how many ticks were claimed with it. The first
// attempt at a tick of the schedule counts: a further one is at a tick that the record before has
// accounted for. While ticks of former schedules are still to be recorded, their count stays.
func (v View) count(r *Record, run zkrec.Run) {
	first := run.Manual == "" && run.Tick > v.Record.Watermark
	if !first && v.Record.Watermark < v.Since.UnixMilli() {
		r.Runs, r.RunsSince = v.Record.Runs, v.Record.RunsSince
		return
	}
	if v.Policy.MaxRuns == 0 {
		r.Runs, r.RunsSince = 0, 0
		return
	}
	n := Runs(v.Record, v.Since)
	if first {
		n++
	}
	if r.Runs, r.RunsSince = n, 0; n > 0 {
		r.RunsSince = v.Since.UnixMilli()
	}
}

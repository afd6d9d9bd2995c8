package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// HungAtLeast is how long a run takes before it counts as hung, unless its job says after which
// time it does.
const HungAtLeast = time.Minute

// The times after which a run hangs.
const (
	hungTimesUsual = 10
	hungTimesLong  = 2
)

// Overrun is the first tick after the one that an open run is for and after its start: it is
// skipped, or waits, if it comes during the run. Zero if no tick follows, or a pause covers it.
func Overrun(j Job, run zkrec.Run) time.Time {
	tick := j.Schedule.Next(Later(time.UnixMilli(run.Tick), j.through(time.UnixMilli(run.Started))))
	if j.PausedAt(j.Due(tick)) != nil {
		return time.Time{}
	}
	return tick
}

// HangsFrom is when an open run begins to count as hung, by the clock of its instance: after
// Policy.HungAfter, or ten times as long as 95 % of the runs in the history, or longer than twice
// the longest of them when two ticks have come due, and a minute at least. Zero: it never does.
// usual is how long those 95 % took at most; 0 if the history does not tell.
func HangsFrom(j Job, run zkrec.Run, history []Entry) (from time.Time, usual time.Duration) {
	if j.Schedule.Always() || j.Policy.HungAfter < 0 {
		return time.Time{}, 0
	}
	before := durations(history)
	var longest time.Duration
	if n := len(before); n > 0 {
		usual, longest = before[(n*95+99)/100-1], before[n-1]
	}
	began := time.UnixMilli(run.Started)
	if after := j.Policy.HungAfter; after > 0 {
		return began.Add(after), usual
	}
	if len(before) > 0 {
		from = began.Add(hungTimesUsual * usual)
	}
	if tick := Overrun(j, run); !tick.IsZero() {
		second := j.Schedule.Next(tick)
		longer := began.Add(hungTimesLong*longest + time.Millisecond)
		if both := Later(j.Due(second), longer); !second.IsZero() && (from.IsZero() || both.Before(from)) {
			from = both
		}
	}
	if from.IsZero() {
		return from, usual
	}
	return Later(from, began.Add(HungAtLeast)), usual
}

// durations are the durations of the runs in a history that nothing interrupted, in order.
func durations(entries []Entry) (took []time.Duration) {
	for _, e := range entries {
		ended := e.State == history.StateOK || e.State == history.StateFailed || e.State == history.StateTimedOut
		if ended && e.Ended >= e.Started {
			took = append(took, time.Duration(e.Ended-e.Started)*time.Millisecond)
		}
	}
	slices.Sort(took)
	return took
}

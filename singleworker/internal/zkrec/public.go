package zkrec

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// Public returns the run as hooks and readers are given it.
func (r Run) Public() history.Run {
	return history.Run{
		Tick: Time(r.Tick), Manual: r.Manual, State: r.State, InstanceID: r.SID, Token: r.Token,
		RunID: r.RunID, Attempt: r.Attempt, Failures: r.Failures, NotBegun: r.NotBegun, Restarts: r.Restarts,
		Started: Time(r.Started), Ended: Time(r.Ended), Error: r.Error, TakenFrom: r.TakenFrom, DelayedMillis: r.Delayed, Begun: Time(r.Passed),
		Effects: r.Effects.Value(), Asked: r.Asked.Value(),
	}
}

// Public returns the entry as hooks and readers are given it.
func (e Entry) Public() history.Entry {
	return history.Entry{Number: e.Number, Rev: e.Rev, Run: e.Run.Public(), To: Time(e.Last()), Count: e.Ticks(), Reason: e.Reason}
}

// Milli converts a time to one of the records. The zero time is 0.
func Milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time converts a time of the records. 0 is the zero time.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return UTC(time.UnixMilli(ms))
}

// UTC is t in UTC; zero if JSON has no form for it, which only a record has that someone
// edited.
func UTC(t time.Time) time.Time {
	const lastYear = 9999
	if t = t.UTC(); t.Year() < 0 || t.Year() > lastYear {
		return time.Time{}
	}
	return t
}

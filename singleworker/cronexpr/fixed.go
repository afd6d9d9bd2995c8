package cronexpr

import "time"

// The bounds of @every and @at in Unix milliseconds, end exclusive: the years of
// the calendar in UTC, since these schedules have no zone.
const (
	firstMilli = int64(firstWall) * 1000
	endMilli   = (int64(lastWall) + 1) * 1000
)

// An every is the rule of @every: it fires at each multiple of a period since
// the Unix epoch, so that all instances agree without coordination.
type every struct {
	period int64 // milliseconds, at least 1000
}

func (e every) next(after time.Time) (time.Time, bool) {
	first := max(after.UnixMilli()+1, firstMilli) // UnixMilli rounds down
	tick := (first + e.period - 1) / e.period * e.period
	return time.UnixMilli(tick), tick < endMilli
}

func (e every) prev(before time.Time) (time.Time, bool) {
	last := before.UnixMilli()
	if time.UnixMilli(last).Equal(before) {
		last--
	}
	last = min(last, endMilli-1)
	return time.UnixMilli(last / e.period * e.period), last >= firstMilli
}

// A never is the rule of @manually and @always: it does not fire.
type never struct{ always bool }

func (never) next(time.Time) (t time.Time, ok bool) { return t, false }
func (never) prev(time.Time) (t time.Time, ok bool) { return t, false }

// A once is the rule of @at: it fires once.
type once struct {
	at time.Time
}

func (o once) next(after time.Time) (time.Time, bool)  { return o.at, o.at.After(after) }
func (o once) prev(before time.Time) (time.Time, bool) { return o.at, o.at.Before(before) }

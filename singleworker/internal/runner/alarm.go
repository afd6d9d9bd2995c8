package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// alarm is gocron's view of a schedule, and remembers which ticks gocron was
// told of: its tasks do not learn what time they were scheduled for.
type alarm struct {
	schedule *cronexpr.Schedule
	after    time.Time // no tick up to here is wanted

	mu   sync.Mutex
	told []told // in order
}

// told is a tick that gocron was told of.
type told struct {
	tick  time.Time
	rings time.Time // when its timer ends, on the monotonic clock
}

var _ gocron.Cron = (*alarm)(nil)

// IsValid satisfies gocron; the schedule was parsed long before.
func (a *alarm) IsValid(string, *time.Location, time.Time) error { return nil }

// ended is when an alarm goes off that has no tick left. gocron's loops do not
// end on a zero time.
const ended = 100 * 365 * 24 * time.Hour

// ahead is the zone in which gocron is told the ticks. It passes over a time
// that shows the same second of the day as the one before, or as the present
// when a job is added, because it takes that for the repeated hour of autumn.
// Its present is in UTC: in a zone ahead of that no two are the same.
var ahead = time.FixedZone("ahead of UTC", 1)

// Next is called by gocron when it sets the timer, and again as long as it is
// told a tick that is over already: then of the latest such, because after a leap
// of the clock there may be millions.
func (a *alarm) Next(last time.Time) time.Time {
	if last.Before(a.after) {
		last = a.after
	}
	next := a.schedule.Next(last)
	if next.IsZero() {
		return last.Add(ended)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if next.Before(now) {
		next = a.schedule.Prev(now)
	}
	a.told = append(a.told, told{tick: next, rings: now.Add(next.Sub(now))})
	return next.In(ahead)
}

// due returns the tick that an alarm going off at now is for: the latest that
// is not in the future by either clock. The wall clock runs ahead after a
// suspension, the monotonic one when the wall clock was set back since the
// timer was set. There is none when the alarm before was so late that it took
// this one's tick.
func (a *alarm) due(now time.Time) (tick time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.told) && (!a.told[n].tick.After(now) || !a.told[n].rings.After(now)) {
		n++
	}
	if n == 0 {
		return time.Time{}, false
	}
	tick = a.told[n-1].tick
	a.told = slices.Delete(a.told, 0, n)
	return tick, true
}

package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// alarm presents a schedule to gocron and remembers the ticks it returned, because
// gocron does not tell its tasks what time they were scheduled for.
type alarm struct {
	schedule *cronexpr.Schedule
	wall     wall.Clock
	after    time.Time // ticks up to here are claimed already

	mu  sync.Mutex
	set []timer // in order
}

// timer is a tick for which gocron has set a timer.
type timer struct {
	tick  time.Time
	fires time.Time // when the timer fires, on the monotonic clock
}

var _ gocron.Cron = (*alarm)(nil)

// IsValid satisfies gocron; the schedule is parsed and valid.
func (a *alarm) IsValid(string, *time.Location, time.Time) error { return nil }

// never is the delay of an alarm for a schedule without further ticks. gocron's
// loops do not terminate on a zero time.
const never = 100 * 365 * 24 * time.Hour

// ahead is the zone of the ticks passed to gocron. When a job is added, gocron
// drops a time that shows the same second of the day as the previous one or as the
// current time, because it takes that for the repeated hour when daylight saving
// ends. Its current time is in UTC; in a zone ahead of UTC no two are the same.
var ahead = time.FixedZone("ahead of UTC", 1)

// Next is called by gocron when it sets the timer, and again while the returned
// tick is in the past. It then skips to the latest past tick: after the clock
// jumped there may be millions.
func (a *alarm) Next(last time.Time) time.Time {
	off := a.wall.Off() // which gocron's clock is not
	if last = last.Add(off); last.Before(a.after) {
		last = a.after
	}
	next := a.schedule.Next(last)
	if next.IsZero() {
		return last.Add(never)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	here := now.Add(off)
	if next.Before(here) {
		next = a.schedule.Prev(here)
	}
	a.set = append(a.set, timer{tick: next, fires: now.Add(next.Sub(here))})
	return next.Add(-off).In(ahead)
}

// due returns the tick of an alarm that goes off at now: the latest one that is
// past by the wall clock or by the monotonic clock. After a suspension the wall
// clock is ahead of the monotonic one; after the wall clock was set back, it is
// the other way round. ok is false if the previous alarm was so late that it
// already returned this one's tick.
func (a *alarm) due(now time.Time) (tick time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	here := now.Add(a.wall.Off())
	for n < len(a.set) && (!a.set[n].tick.After(here) || !a.set[n].fires.After(now)) {
		n++
	}
	if n == 0 {
		return time.Time{}, false
	}
	tick = a.set[n-1].tick
	a.set = slices.Delete(a.set, 0, n)
	return tick, true
}

package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// early is how long before a tick its alarm goes off. gocron wakes a job in some 20 µs, one after
// the other, so that ticks of thousands of schedules at the same time would be late by its pace.
// The runner lets the rest of the time pass by one timer for all.
const early = 400 * time.Millisecond

// alarm presents a schedule to gocron, a little early, and remembers the ticks it returned, because
// gocron does not tell its tasks their scheduled times. All jobs with the schedule share it: a
// thousand jobs that are due at once cost one alarm.
type alarm struct {
	schedule *cronexpr.Schedule
	wall     wall.Clock

	// Owned by the runner's loop.
	id   uuid.UUID // gocron's
	jobs []*job    // in no order

	mu    sync.Mutex
	after time.Time // ticks up to here are past, or returned
	set   []timer   // in order
}

// timer is a tick for which gocron has set a timer.
type timer struct {
	tick  time.Time
	comes time.Time // when the tick comes, on the monotonic clock; the timer fires early
}

var _ gocron.Cron = (*alarm)(nil)

// newAlarm returns an alarm for the ticks that are to come. A job may have claimed some of them
// already.
func newAlarm(s *cronexpr.Schedule, clock wall.Clock) *alarm {
	return &alarm{schedule: s, wall: clock, after: clock.Now()}
}

// add has the alarm go off for a job, too.
func (a *alarm) add(j *job) {
	j.alarm, j.place = a, len(a.jobs)
	a.jobs = append(a.jobs, j)
}

// remove has the alarm go off without a job.
func (a *alarm) remove(j *job) {
	last := len(a.jobs) - 1
	moved := a.jobs[last]
	a.jobs[j.place], moved.place = moved, j.place
	a.jobs[last] = nil // for the garbage collector
	a.jobs, j.alarm = a.jobs[:last], nil
}

// IsValid satisfies gocron; the schedule is parsed and valid.
func (a *alarm) IsValid(string, *time.Location, time.Time) error { return nil }

// atOnce is the delay of an alarm that should have gone off: gocron drops a time that is past.
const atOnce = 10 * time.Millisecond

// never is the delay of an alarm for a schedule without further ticks. gocron's
// loops do not terminate on a zero time.
const never = 100 * 365 * 24 * time.Hour

// ahead is a zone in which a time shows another second than in UTC.
var ahead = time.FixedZone("ahead of UTC", 1)

// shown returns t in a zone in which it does not show the same second of the same day as gocron's
// last time, which is in UTC or ahead. gocron drops a time that does, because it takes that for the
// repeated hour when daylight saving ends: the next alarm would go off when the tick after that is
// near.
func shown(t, last time.Time) time.Time {
	if _, off := last.Zone(); t.Unix() == last.Unix()+int64(off) {
		return t.In(ahead)
	}
	return t.UTC()
}

// Next is called by gocron when it sets the timer. If the tick that follows the last returned one
// is past, it is the latest past tick: after the clock jumped there may be millions.
func (a *alarm) Next(last time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := a.schedule.Next(a.after)
	now := time.Now()
	if next.IsZero() {
		return now.Add(never)
	}
	off := a.wall.Off() // which gocron's clock is not
	here := now.Add(off)
	if next.Before(here) {
		next = a.schedule.Prev(here)
	}
	a.after = next
	a.set = append(a.set, timer{tick: next, comes: now.Add(next.Sub(here))})
	return shown(ticks.Later(next.Add(-off-early), now.Add(atOnce)), last)
}

// due returns a tick whose alarm goes off at now, and how long it takes until the tick comes: the
// latest tick that is past by the wall clock or by the monotonic clock, or else the next one if
// that is near. After a suspension the wall clock is ahead of the monotonic one; after the wall
// clock was set back, it is the other way round. An alarm may have none, because the previous one
// was so late that it already returned it, or two, because gocron dropped one.
func (a *alarm) due(now time.Time) (tick time.Time, in time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	here := now.Add(a.wall.Off())
	left := func(t timer) time.Duration { return min(t.tick.Sub(here), t.comes.Sub(now)) }
	n := 0
	for n < len(a.set) && left(a.set[n]) <= 0 {
		n++
	}
	if n == 0 && len(a.set) > 0 && left(a.set[0]) <= early {
		n = 1
	}
	if n == 0 {
		return time.Time{}, 0, false
	}
	due := a.set[n-1]
	a.set = slices.Delete(a.set, 0, n)
	return due.tick, max(left(due), 0), true
}

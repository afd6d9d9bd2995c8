package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// newAlarm returns an alarm for the ticks that are to come. A job may have claimed some of them
// already.
func newAlarm(s *cronexpr.Schedule, clock wall.Clock) *alarm {
	return &alarm{schedule: s, wall: clock, after: clock.Now()}
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

// job is an owned job with its latest known record, its alarm and its timer.
type job struct {
	Job
	alarm      *alarm
	place      int             // in alarm.jobs
	lastDue    int64           // the last tick that has come, in ns
	committing bool            // a decision is being written
	waitsSince time.Time       // when it first had a run to open, and there was no room; zero if none waits
	limited    bool            // it waits for places of a limit, and not for this instance's other runs
	inLine     bool            // it stands in the line
	evicted    bool            // the run in progress was canceled for the slot to move
	heldUntil  time.Time       // no run begins before, for the slot to move
	labels     context.Context //nolint:containedctx // of its runs; nil before the first
	wake       *time.Timer
}

// owned are the owned jobs by name.
type owned map[string]*job

// remember updates a job's latest known record.
func (o owned) remember(name string, record *ticks.Record) {
	if j := o[name]; j != nil {
		j.Record = record
	}
}

// forget drops a completed or canceled request.
func (j *job) forget(request string) {
	j.Requests = slices.DeleteFunc(slices.Clone(j.Requests), func(r ticks.Request) bool { return r.ID == request })
}

// alarms tell which jobs have a tick now. There is one of gocron's for each schedule, and one timer
// for each moment. The loop owns them.
type alarms struct {
	*common
	scheduler gocron.Scheduler
	set       map[*cronexpr.Schedule]*alarm
	coming    map[int64][]*alarm                    // that have gone off, by the tick that is about to come, in ns
	come      func(tick time.Time, together []*job) // is called when a tick comes
}

// add has a job called at each tick of its schedule. Equal schedules share an alarm.
func (as *alarms) add(j *job) error {
	a := as.set[j.Schedule]
	if a == nil {
		a = newAlarm(j.Schedule, as.cfg.Wall)
		// The text is empty because alarm, not gocron, computes the ticks.
		scheduled, err := as.scheduler.NewJob(
			gocron.CronJob("", true),
			gocron.NewTask(func() { as.box.Post(func() { as.due(a) }) }),
			gocron.WithCronImplementation(a), gocron.WithName(j.Schedule.String()))
		if err != nil {
			return fmt.Errorf("gocron: %w", err)
		}
		a.id, as.set[j.Schedule] = scheduled.ID(), a
	}
	j.alarm, j.place = a, len(a.jobs)
	a.jobs = append(a.jobs, j)
	return nil
}

// remove calls a job no longer. It removes the job's alarm, too, if no other job has that.
func (as *alarms) remove(j *job) {
	a := j.alarm
	last := len(a.jobs) - 1
	moved := a.jobs[last]
	a.jobs[j.place], moved.place = moved, j.place
	a.jobs[last] = nil // for the garbage collector
	if a.jobs, j.alarm = a.jobs[:last], nil; last > 0 {
		return
	}
	delete(as.set, a.schedule)
	if err := as.scheduler.RemoveJob(a.id); err != nil {
		as.cfg.Logger.Debug("alarm not removed", "schedule", a.schedule, "err", err)
	}
}

// due is called when gocron's timer for an alarm fires.
func (as *alarms) due(a *alarm) {
	for tick, in, ok := a.due(time.Now()); ok; tick, in, ok = a.due(time.Now()) {
		as.expect(a, tick, in)
	}
}

// expect calls the jobs of an alarm when a tick comes, together with all that have one at the same
// time: one timer and one turn of the loop serve thousands. Nothing is claimed before: a run that
// is claimed when its owner crashes waits for the end of the session.
func (as *alarms) expect(a *alarm, tick time.Time, in time.Duration) {
	if in == 0 {
		as.call(tick, a)
		return
	}
	at := tick.UnixNano()
	together, waits := as.coming[at]
	as.coming[at] = append(together, a)
	if !waits {
		as.after("", in, func() {
			together := as.coming[at]
			delete(as.coming, at)
			as.call(tick, together...)
		})
	}
}

// call calls the jobs that have a tick now: those that have the schedule by now.
func (as *alarms) call(tick time.Time, together ...*alarm) {
	var jobs []*job
	for _, a := range together {
		jobs = append(jobs, a.jobs...)
	}
	slices.SortFunc(jobs, func(a, b *job) int { return strings.Compare(a.Name, b.Name) }) // gocron has no order
	as.come(tick, jobs)
}

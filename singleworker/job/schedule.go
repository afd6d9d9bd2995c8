package job

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"
	"weak"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// A group may have thousands of jobs with a few schedules, and time.LoadLocation reads a file and
// returns another copy of some kilobytes each time.
var (
	schedules shared[timetable, cronexpr.Schedule]
	zones     shared[string, time.Location]
)

// timetable is all that a job's ticks follow from.
type timetable struct {
	schedule, zone      string
	notBefore, notAfter int64 // Unix nanoseconds, 0 for no bound
}

// shared holds values that do not change as long as somebody uses them. Safe for concurrent use.
type shared[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
}

// get returns the value of a key, and makes it if nobody uses it.
func (s *shared[K, V]) get(key K, makeIt func() (*V, error)) (*V, error) {
	if v := s.used(key); v != nil {
		return v, nil
	}
	v, err := makeIt() // without the lock: it may take another, or read a file
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.values[key].Value(); other != nil {
		return other, nil // made in the same moment
	}
	if s.values == nil {
		s.values = make(map[K]weak.Pointer[V])
	}
	s.values[key] = weak.Make(v)
	runtime.AddCleanup(v, s.forget, key)
	return v, nil
}

func (s *shared[K, V]) used(key K) *V {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key].Value()
}

// forget removes a value that nobody uses, unless it was made once more.
func (s *shared[K, V]) forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[key].Value() == nil {
		delete(s.values, key)
	}
}

// ParseSchedule returns the job's schedule in its time zone, within NotBefore and NotAfter, without
// the times that its Calendars leave out. A job that has calendars needs WithCalendars, one that
// runs after others WithParents. The error is a *invalid.FieldError.
func (j Job) ParseSchedule() (*cronexpr.Schedule, error) {
	schedule, err := j.timetable()
	if err == nil && schedule.After() {
		schedule, err = j.common(schedule)
	}
	if err != nil || len(j.Calendars) == 0 {
		return schedule, err
	}
	return j.only(schedule)
}

// timetable is the job's schedule with all times that its calendars may leave out.
func (j Job) timetable() (*cronexpr.Schedule, error) {
	key := timetable{j.Schedule, j.TimeZone, nanos(j.NotBefore), nanos(j.NotAfter)}
	return schedules.get(key, func() (*cronexpr.Schedule, error) {
		zone, err := j.Location()
		if err != nil {
			return nil, err
		}
		schedule, err := cronexpr.Parse(j.Schedule, zone)
		if err != nil {
			return nil, Invalid("Schedule", j.Schedule, err)
		}
		return schedule.Within(j.NotBefore, j.NotAfter), nil
	})
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Zone is the job's time zone, or UTC if it names none that exists.
func (j Job) Zone() *time.Location {
	zone, err := j.Location()
	if err != nil {
		return time.UTC
	}
	return zone
}

// Location loads the job's time zone. "Local" is refused: it differs between
// machines. The error is an *invalid.FieldError.
func (j Job) Location() (*time.Location, error) {
	const want = `want an IANA name such as "Europe/Berlin", or an offset such as "GMT+8:00"`
	switch j.TimeZone {
	case "", DefaultTimeZone:
		return time.UTC, nil
	case "Local":
		return nil, Invalid("TimeZone", j.TimeZone, errors.New("differs between machines, "+want))
	}
	return zones.get(j.TimeZone, func() (*time.Location, error) {
		if zone := fixedZone(j.TimeZone); zone != nil {
			return zone, nil
		}
		zone, err := time.LoadLocation(j.TimeZone)
		if err != nil {
			return nil, Invalid("TimeZone", j.TimeZone, fmt.Errorf("%w, %s", err, want))
		}
		return zone, nil
	})
}

// offset is how Java's TimeZone writes a fixed one: GMT+8:00, GMT+0800, GMT-3. IANA's Etc/GMT+8 is
// something else, with the opposite sign.
var offset = regexp.MustCompile(`^GMT([+-])([01]?\d|2[0-3])(?::?([0-5]\d))?$`)

// fixedZone is the time zone of an offset, or nil for any other name.
func fixedZone(name string) *time.Location {
	parts := offset.FindStringSubmatch(name)
	if parts == nil {
		return nil
	}
	hours, _ := strconv.Atoi(parts[2])
	minutes, _ := strconv.Atoi("0" + parts[3])
	seconds := (hours*60 + minutes) * 60
	if parts[1] == "-" {
		seconds = -seconds
	}
	return time.FixedZone(name, seconds)
}

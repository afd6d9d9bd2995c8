package job

import (
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// CalendarTimes is a calendar as it was and is: each of its contents holds for the times after its
// own Since, up to the Since of the next. The first holds for all times before that, too.
type CalendarTimes struct {
	of  []content
	err error // why there are none
}

type content struct {
	since time.Time
	*days
}

// NoCalendar stands for a calendar without contents: jobs that name it are invalid.
func NoCalendar(why error) CalendarTimes { return CalendarTimes{err: why} }

// Add returns c with a further content, which holds for times after since.
func (c CalendarTimes) Add(since time.Time, is Calendar) (CalendarTimes, error) {
	parsed, err := is.parse()
	if err != nil {
		return CalendarTimes{}, err
	}
	return CalendarTimes{of: append(slices.Clip(c.of), content{since, parsed})}, nil
}

// at reports whether the calendar has t, as days.at does, by the content that holds for it.
func (c CalendarTimes) at(t time.Time) (in bool, from, until time.Time) {
	n := len(c.of) - 1
	for n > 0 && !t.After(c.of[n].since) {
		n--
	}
	in, from, until = c.of[n].at(t)
	if begin := c.of[n].since.Add(1); n > 0 && from.Before(begin) {
		from = begin
	}
	if n+1 < len(c.of) {
		if end := c.of[n+1].since.Add(1); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return in, from, until
}

// kept has the times that a job keeps by one of its calendars.
type kept struct {
	CalendarTimes

	out bool
}

// Keeps implements cronexpr.Filter.
func (k kept) Keeps(t time.Time) (is bool, from, until time.Time) {
	in, from, until := k.at(t)
	return in != k.out, from, until
}

var errNoCalendar = errors.New("is a calendar of which nothing is known here")

// WithCalendars returns j with the calendars of its group, by name. Without them, ParseSchedule
// cannot tell the times of a job that names calendars.
func (j Job) WithCalendars(calendars map[string]CalendarTimes) Job {
	j.known = &known{calendars: calendars, parents: j.known.get().parents}
	return j
}

// known has the times on which a job's schedule rests besides its own fields, by name.
type known struct {
	calendars map[string]CalendarTimes
	parents   map[string]ParentTimes
}

// get is k, or of a job that rests on nothing else, none.
func (k *known) get() known {
	if k == nil {
		return known{}
	}
	return *k
}

// only applies the job's calendars to its schedule.
func (j Job) only(schedule *cronexpr.Schedule) (*cronexpr.Schedule, error) {
	filters := make([]cronexpr.Filter, len(j.Calendars))
	for i, of := range j.Calendars {
		name, out := CalendarName(of)
		calendar, found := j.known.get().calendars[name]
		switch {
		case calendar.err != nil:
			return nil, Invalid("Calendars", of, calendar.err)
		case !found || len(calendar.of) == 0:
			return nil, Invalid("Calendars", of, errNoCalendar)
		}
		filters[i] = kept{calendar, out}
	}
	return schedule.Only(filters...), nil
}

// LeftOutBy is the element of Calendars by which the job leaves out a time of its schedule, or "".
func (j Job) LeftOutBy(t time.Time) string {
	for _, of := range j.Calendars {
		name, out := CalendarName(of)
		if calendar, found := j.known.get().calendars[name]; found && len(calendar.of) > 0 {
			if is, _, _ := (kept{calendar, out}).Keeps(t); !is {
				return of
			}
		}
	}
	return ""
}

// Uncalendared is the job without its calendars: with all times of its schedule.
func (j Job) Uncalendared() Job {
	j.Calendars = nil
	return j
}

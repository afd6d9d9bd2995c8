package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

// Calendar is a set of times: those whose date is one of its days, and whose time of the day is in
// its Hours, as clocks show them in its zone. Dates, Yearly and Weekdays name days, and a day that
// one of them names is one of its days. If none of them is set, all days are.
type Calendar struct {
	// TimeZone is as Job.TimeZone. Default: UTC. The job's own zone does not matter.
	TimeZone string `json:"time_zone,omitempty" yaml:"time_zone,omitempty"`
	// Dates are days such as "2026-12-24", and ranges such as "2026-12-24..2027-01-02", both
	// included.
	Dates []string `json:"dates,omitempty" yaml:"dates,omitempty"`
	// Yearly are days of every year such as "12-25", days of every month such as "*-15", and ranges
	// of either, both included: "12-24..01-02" reaches into the next year. "02-29" is there in leap
	// years only.
	Yearly []string `json:"yearly,omitempty" yaml:"yearly,omitempty"`
	// Weekdays are "mon" to "sun", and ranges such as "sat..sun".
	Weekdays []string `json:"weekdays,omitempty" yaml:"weekdays,omitempty"`
	// Hours are ranges of the time of the day such as "09:00..17:30": the first time is included, and
	// the last is not, which may be "24:00". "22:00..06:00" is the beginning and the end of each day.
	// Default: all day.
	Hours []string `json:"hours,omitempty" yaml:"hours,omitempty"`
}

// The limits of calendars.
const (
	MaxCalendars     = 16       // that a job names
	MaxCalendarBytes = 16 << 10 // of a calendar as JSON
)

// Validate reports, as an *invalid.FieldError, the first field of the calendar that is not valid.
func (c Calendar) Validate() error {
	_, err := c.parse()
	return err
}

// Equal reports whether both calendars say the same, in the same order.
func (c Calendar) Equal(other Calendar) bool {
	return c.TimeZone == other.TimeZone && slices.Equal(c.Dates, other.Dates) && slices.Equal(c.Yearly, other.Yearly) &&
		slices.Equal(c.Weekdays, other.Weekdays) && slices.Equal(c.Hours, other.Hours)
}

// Contains reports whether the calendar has a time. It has none if it is not valid.
func (c Calendar) Contains(t time.Time) bool {
	p, err := c.parse()
	if err != nil {
		return false
	}
	in, _, _ := p.at(t)
	return in
}

// Span is a span of time. Until is excluded, and zero if that is a year on or later.
type Span struct{ From, Until time.Time }

// Spans are the first n spans of time that the calendar has and that end after t, if they begin
// within a year. It has none if it is not valid.
func (c Calendar) Spans(t time.Time, n int) (list []Span) {
	p, err := c.parse()
	if err != nil {
		return nil
	}
	for end := t.AddDate(1, 0, 0); !t.IsZero() && t.Before(end); {
		in, from, until := p.at(t)
		switch last := len(list) - 1; {
		case !in:
		case last >= 0 && list[last].Until.Equal(t):
			list[last].Until = until
		case len(list) == n:
			return list
		default:
			list = append(list, Span{from, until})
		}
		if t = until; in && !t.Before(end) {
			list[len(list)-1].Until = time.Time{}
		}
	}
	return list
}

// CheckCalendarName reports why name cannot name a calendar.
func CheckCalendarName(name string) error {
	if strings.HasPrefix(name, leftOut) {
		return fmt.Errorf("begins with %q, which leaves the times of a calendar out", leftOut)
	}
	return CheckNodeName(name)
}

// leftOut precedes the name of a calendar whose times a job leaves out.
const leftOut = "-"

// CalendarName is the name in an element of Job.Calendars, and whether its times are left out.
func CalendarName(of string) (name string, out bool) { return strings.CutPrefix(of, leftOut) }

// CalendarNames are the names of the calendars that the job names, in their order.
func (j Job) CalendarNames() (names []string) {
	for _, of := range j.Calendars {
		name, _ := CalendarName(of)
		names = append(names, name)
	}
	return names
}

func (j Job) checkCalendars() error {
	if len(j.Calendars) > MaxCalendars {
		return Invalid("Calendars", fmt.Sprintf("%d calendars", len(j.Calendars)), fmt.Errorf("are too many, at most %d are allowed", MaxCalendars))
	}
	names := j.CalendarNames()
	for i, name := range names {
		err := CheckCalendarName(name)
		if err == nil && slices.Contains(names[:i], name) {
			err = errors.New("is there twice")
		}
		if err == nil {
			err = j.needsSchedule()
		}
		if err != nil {
			return Invalid("Calendars", j.Calendars[i], err)
		}
	}
	return nil
}

// days is a calendar that was parsed.
type days struct {
	zone      *time.Location
	every     bool // no field names days
	dates     []dates
	onlyDates bool               // no other field names days
	yearly    [13][32]bool       // by month and day
	weekdays  [7]bool            // by time.Weekday
	hours     [][2]time.Duration // ranges since midnight; nil means all day
}

// dates is a range of yyyymmdd, both included. No clock shows any of it before begin, or after end.
type dates struct {
	first, last int
	begin, end  time.Time
}

// calendarField is a field of a calendar, with a function that takes in the ends of a range.
type calendarField struct {
	name string
	of   []string
	take func(first, last string) bool
	want string
}

func (c Calendar) parse() (*days, error) {
	if encoded, err := json.Marshal(c); err != nil || len(encoded) > MaxCalendarBytes {
		return nil, calendarError("Dates", fmt.Sprintf("%d bytes", len(encoded)), fmt.Sprintf("is too long: a calendar has at most %d bytes as JSON", MaxCalendarBytes))
	}
	zone, err := Job{TimeZone: c.TimeZone}.Location()
	if refused := new(invalid.FieldError); errors.As(err, &refused) {
		return nil, &invalid.FieldError{Of: "calendar", Field: refused.Field, Value: refused.Value, Err: refused.Err}
	}
	d := &days{zone: zone, every: len(c.Dates)+len(c.Yearly)+len(c.Weekdays) == 0, onlyDates: len(c.Yearly)+len(c.Weekdays) == 0}
	if d.every && len(c.Hours) == 0 {
		return nil, calendarError("Dates", "", "is empty, as all fields are: a calendar without times")
	}
	for _, field := range []calendarField{
		{"Dates", c.Dates, d.takeDates, `"2026-12-24", or "2026-12-24..2027-01-02" in that order`},
		{"Yearly", c.Yearly, d.takeYearly, `"12-25", "*-15", "12-24..01-02" or "*-25..*-31"`},
		{"Weekdays", c.Weekdays, d.takeWeekdays, `mon, tue, wed, thu, fri, sat or sun, or "mon..fri"`},
		{"Hours", c.Hours, d.takeHours, `"09:00..17:30", "22:00..06:00" or "18:00..24:00"`},
	} {
		for _, text := range field.of {
			first, last, ranges := strings.Cut(text, "..")
			if !ranges {
				last = first
			}
			if !field.take(first, last) {
				return nil, calendarError(field.name, text, "is not understood, want "+field.want)
			}
		}
	}
	return d, nil
}

func calendarError(field, value, why string) error {
	return &invalid.FieldError{Of: "calendar", Field: field, Value: value, Err: errors.New(why)}
}

func (d *days) takeDates(first, last string) bool {
	from, err := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	if err != nil || err2 != nil || to.Before(from) {
		return false
	}
	const offset = 2 * day // more than any zone has
	d.dates = append(d.dates, dates{number(from), number(to), from.Add(-offset), to.Add(day + offset)})
	return true
}

// number is a date as a number: 20261224.
func number(t time.Time) int {
	y, m, day := t.Date()
	return (y*100+int(m))*100 + day
}

func (d *days) takeYearly(first, last string) bool {
	from, ok := yearDay(first)
	to, ok2 := yearDay(last)
	fromAll, toAll := from.month == 0, to.month == 0
	if !ok || !ok2 || fromAll != toAll || fromAll && to.day < from.day {
		return false
	}
	for m := 1; m <= 12; m++ {
		for day := 1; day <= 31; day++ {
			after, before := from.upTo(yearDate{m, day}), yearDate{m, day}.upTo(to)
			switch {
			case fromAll:
				after, before = from.day <= day, day <= to.day
			case !from.upTo(to): // over New Year
				after, before = after || before, true
			}
			d.yearly[m][day] = d.yearly[m][day] || after && before
		}
	}
	return true
}

// yearDate is a day of each year, or of each month if month is 0.
type yearDate struct{ month, day int }

func (y yearDate) upTo(other yearDate) bool {
	return y.month < other.month || y.month == other.month && y.day <= other.day
}

func yearDay(text string) (of yearDate, ok bool) {
	if day, every := strings.CutPrefix(text, "*-"); every {
		n, err := strconv.Atoi(day)
		return yearDate{0, n}, err == nil && len(day) == 2 && n >= 1 && n <= 31
	}
	t, err := time.Parse(time.DateOnly, "2000-"+text) // a leap year
	return yearDate{int(t.Month()), t.Day()}, err == nil
}

func (d *days) takeWeekdays(first, last string) bool {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	from, to := slices.Index(names, first), slices.Index(names, last)
	if from < 0 || to < 0 {
		return false
	}
	for day := from; ; day = (day + 1) % len(names) {
		if d.weekdays[day] = true; day == to {
			return true
		}
	}
}

func (d *days) takeHours(first, last string) bool {
	from, ok := sinceMidnight(first)
	to, ok2 := sinceMidnight(last)
	switch {
	case !ok || !ok2 || from == to || from == day:
		return false
	case from < to:
		d.hours = append(d.hours, [2]time.Duration{from, to})
	default:
		d.hours = append(d.hours, [2]time.Duration{from, day}, [2]time.Duration{0, to})
	}
	return true
}

const day = 24 * time.Hour

func sinceMidnight(text string) (time.Duration, bool) {
	if text == "24:00" {
		return day, true
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		t, err = time.Parse(time.TimeOnly, text)
	}
	return t.Sub(t.Truncate(day)), err == nil
}

// at reports whether the calendar has t, and from when until when the answer is the same, until
// excluded, or for ever. As clocks go evenly between two changes of the zone's offset, it is mostly
// no longer than that.
func (d *days) at(t time.Time) (in bool, from, until time.Time) {
	t = t.In(d.zone)
	begin, end := t.ZoneBounds()
	h, m, s := t.Clock()
	clock := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second + time.Duration(t.Nanosecond())
	low, high := time.Duration(0), day
	on := d.has(t)
	if in = on; in && d.hours != nil {
		in = slices.ContainsFunc(d.hours, func(r [2]time.Duration) bool { return r[0] <= clock && clock < r[1] })
		for _, r := range d.hours {
			for _, edge := range r {
				if edge <= clock {
					low = max(low, edge)
				} else {
					high = min(high, edge)
				}
			}
		}
	}
	if from = t.Add(low - clock); from.Before(begin) {
		from = begin
	}
	if until = t.Add(high - clock); !end.IsZero() && until.After(end) {
		until = end
	}
	if !on && d.onlyDates {
		from, until = d.gap(t, from, until)
	}
	return in, from, until
}

// gap is from when until when none of the dates is, around t, which is on none of them: from and
// until are nearer, or zero, which is no bound. Years without a date would take thousands of steps
// otherwise.
func (d *days) gap(t, from, until time.Time) (since, next time.Time) {
	n := number(t)
	for _, r := range d.dates {
		if begin := later(r.begin, until); r.first > n && (next.IsZero() || begin.Before(next)) {
			next = begin
		}
		if r.last < n {
			end := r.end
			if from.Before(end) {
				end = from
			}
			since = later(since, end)
		}
	}
	return since, next
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// has reports whether t is on one of the days.
func (d *days) has(t time.Time) bool {
	_, month, dayOf := t.Date()
	if d.every || d.yearly[month][dayOf] || d.weekdays[t.Weekday()] {
		return true
	}
	n := number(t)
	return slices.ContainsFunc(d.dates, func(r dates) bool { return r.first <= n && n <= r.last })
}

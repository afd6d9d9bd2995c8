package job_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

const berlin = "Europe/Berlin"

// TestCalendar has a row for each form of each field: times inside, and times outside.
func TestCalendar(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		of      job.Calendar
		in, out string // by the clocks of its zone
	}{
		{job.Calendar{Dates: []string{"2026-12-24"}}, "2026-12-24 00:00 2026-12-24 23:59", "2026-12-23 23:59 2026-12-25 00:00 2027-12-24 12:00"},
		{job.Calendar{Dates: []string{"2026-12-31..2027-01-02"}}, "2026-12-31 00:00 2027-01-02 23:59", "2026-12-30 23:59 2027-01-03 00:00"},
		{job.Calendar{Yearly: []string{"12-25"}, TimeZone: berlin}, "2026-12-25 00:00 1999-12-25 23:59", "2026-12-24 23:59 2026-12-26 00:00"},
		{job.Calendar{Yearly: []string{"12-30..01-02"}}, "2026-12-30 00:00 2026-12-31 23:59 2027-01-01 00:00 2027-01-02 23:59", "2026-12-29 23:59 2027-01-03 00:00"},
		{job.Calendar{Yearly: []string{"02-29"}}, "2028-02-29 12:00", "2026-02-28 12:00 2026-03-01 12:00 2028-02-28 12:00"},
		{job.Calendar{Yearly: []string{"02-28..03-01"}}, "2026-02-28 12:00 2026-03-01 12:00 2028-02-29 12:00", "2026-02-27 12:00 2028-03-02 12:00"},
		{job.Calendar{Yearly: []string{"*-15", "*-30..*-31"}}, "2026-01-15 12:00 2026-02-15 12:00 2026-01-31 12:00 2026-04-30 12:00", "2026-02-28 12:00 2026-01-14 12:00"},
		{job.Calendar{Weekdays: []string{"sat", "sun"}}, "2026-11-28 00:00 2026-11-29 23:59", "2026-11-27 23:59 2026-11-30 00:00"},
		{job.Calendar{Weekdays: []string{"fri..mon"}}, "2026-11-27 00:00 2026-11-30 23:59", "2026-11-26 23:59 2026-12-01 00:00"},
		{job.Calendar{Hours: []string{"09:00..17:30"}, TimeZone: berlin}, "2026-03-29 09:00 2026-11-28 17:29", "2026-03-29 08:59 2026-11-28 17:30"},
		{job.Calendar{Hours: []string{"22:00..06:00"}}, "2026-11-28 22:00 2026-11-28 00:00 2026-11-28 05:59", "2026-11-28 06:00 2026-11-28 21:59"},
		{job.Calendar{Hours: []string{"18:00..24:00"}}, "2026-11-28 18:00 2026-11-28 23:59", "2026-11-28 17:59 2026-11-28 00:00"},
		{job.Calendar{Hours: []string{"02:00..03:00"}, TimeZone: berlin}, "2026-10-25 02:30 2026-10-24 02:30", "2026-10-25 03:00 2026-03-29 03:30"},
		{job.Calendar{Weekdays: []string{"mon..fri"}, Dates: []string{"2026-11-28"}, Hours: []string{"08:00..12:00", "13:00..17:00"}}, "2026-11-27 08:00 2026-11-28 16:59", "2026-11-29 09:00 2026-11-28 12:00"},
	} {
		if err := row.of.Validate(); err != nil {
			t.Errorf("%+v: %v", row.of, err)
			continue
		}
		zone, err := job.Job{TimeZone: row.of.TimeZone}.Location()
		if err != nil {
			t.Fatal(err)
		}
		for want, times := range map[bool]string{true: row.in, false: row.out} {
			for pair := range slices.Chunk(strings.Fields(times), 2) {
				at, err := time.ParseInLocation("2006-01-02 15:04", strings.Join(pair, " "), zone)
				if err != nil {
					t.Fatal(err)
				}
				if is := row.of.Contains(at.UTC()); is != want {
					t.Errorf("%+v contains %v is %v", row.of, at, is)
				}
			}
		}
	}
}

func TestCalendarInvalid(t *testing.T) {
	t.Parallel()
	many := job.Calendar{Dates: slices.Repeat([]string{"2026-12-24"}, job.MaxCalendarBytes/10)}
	for _, row := range []struct {
		of    job.Calendar
		field string
	}{
		{job.Calendar{}, "Dates"},
		{job.Calendar{TimeZone: berlin}, "Dates"},
		{many, "Dates"},
		{job.Calendar{TimeZone: "Mars", Hours: []string{"09:00..10:00"}}, "TimeZone"},
		{job.Calendar{TimeZone: "Local", Hours: []string{"09:00..10:00"}}, "TimeZone"},
		{job.Calendar{Dates: []string{"2026-02-29"}}, "Dates"},
		{job.Calendar{Dates: []string{"2026-12-24..2026-12-23"}}, "Dates"},
		{job.Calendar{Dates: []string{"2026-12-24.."}}, "Dates"},
		{job.Calendar{Dates: []string{"12-24"}}, "Dates"},
		{job.Calendar{Yearly: []string{"02-30"}}, "Yearly"},
		{job.Calendar{Yearly: []string{"*-32"}}, "Yearly"},
		{job.Calendar{Yearly: []string{"*-15..*-14"}}, "Yearly"},
		{job.Calendar{Yearly: []string{"*-15..12-14"}}, "Yearly"},
		{job.Calendar{Yearly: []string{"*-5"}}, "Yearly"},
		{job.Calendar{Weekdays: []string{"Monday"}}, "Weekdays"},
		{job.Calendar{Weekdays: []string{""}}, "Weekdays"},
		{job.Calendar{Hours: []string{"09:00"}}, "Hours"},
		{job.Calendar{Hours: []string{"09:00..09:00"}}, "Hours"},
		{job.Calendar{Hours: []string{"24:00..06:00"}}, "Hours"},
		{job.Calendar{Hours: []string{"9..17"}}, "Hours"},
	} {
		refused := new(invalid.FieldError)
		if err := row.of.Validate(); !errors.As(err, &refused) || refused.Field != row.field || refused.Of != "calendar" {
			t.Errorf("%.80v: %v, want a refusal of %s", row.of, err, row.field)
		}
		if row.of.Contains(time.Unix(0, 0)) {
			t.Errorf("%.80v has a time", row.of)
		}
	}
}

// oracle counts otherwise than the code: it compares texts of the clock.
func oracle(c job.Calendar, t time.Time) bool {
	zone, err := job.Job{TimeZone: c.TimeZone}.Location()
	if err != nil {
		return false
	}
	t = t.In(zone)
	ranged := func(list []string, now string, wraps bool) bool {
		return slices.ContainsFunc(list, func(text string) bool {
			first, last, found := strings.Cut(text, "..")
			if !found {
				last = first
			}
			if strings.HasPrefix(first, "*-") {
				return first[2:] <= now[3:] && now[3:] <= last[2:]
			}
			if wraps && last < first {
				return now >= first || now <= last
			}
			return first <= now && now <= last
		})
	}
	weekday := func(text string) bool {
		return slices.ContainsFunc(c.Weekdays, func(of string) bool { return of == text })
	}
	day := ranged(c.Dates, t.Format(time.DateOnly), false) || ranged(c.Yearly, t.Format("01-02"), true) ||
		weekday(strings.ToLower(t.Format("Mon"))) || len(c.Dates)+len(c.Yearly)+len(c.Weekdays) == 0
	hour := len(c.Hours) == 0
	for _, text := range c.Hours {
		first, last, _ := strings.Cut(text, "..")
		now := t.Format(time.TimeOnly)
		if first += ":00"; first < last+":00" {
			hour = hour || first <= now && now < last+":00"
		} else {
			hour = hour || now >= first || now < last+":00"
		}
	}
	return day && hour
}

func someCalendar(random *rand.Rand) (c job.Calendar) {
	some := func(of ...string) (list []string) {
		for _, text := range of {
			if random.IntN(4) == 0 {
				list = append(list, text)
			}
		}
		return list
	}
	zones := []string{"", berlin, "America/New_York", "Australia/Lord_Howe", "GMT+8:00", "America/Sao_Paulo"}
	c.TimeZone = zones[random.IntN(len(zones))]
	c.Dates = some("2026-12-24", "2026-12-30..2027-01-03", "2028-02-29", "2026-10-25", "2026-03-28..2026-03-30")
	c.Yearly = some("12-25", "12-24..01-06", "02-29", "*-15", "*-28..*-31", "11-01")
	c.Weekdays = some("sat", "sun", "wed")
	c.Hours = some("09:00..17:30", "22:00..06:00", "02:00..03:00", "00:30..01:30", "20:00..24:00")
	return c
}

// TestCalendarsSchedule compares Next and Prev of schedules with calendars, which change at a time,
// with the oracle, which is asked about each time of the schedule without them.
func TestCalendarsSchedule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 31))
		known, contents := map[string]job.CalendarTimes{}, map[string][2]job.Calendar{}
		changed := time.Date(2026, time.Month(1+random.IntN(12)), 1+random.IntN(28), random.IntN(24), 0, 0, 0, time.UTC)
		j := job.Job{Name: "job", Schedule: []string{"0 0 * * * *", "0 */15 * * * *", "0 30 2 * * *", "@every 7h"}[random.IntN(4)], TimeZone: berlin}
		bare, err := j.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "-b"}[:1+random.IntN(2)] {
			j.Calendars = append(j.Calendars, name)
			name, _ = job.CalendarName(name)
			of := [2]job.Calendar{someCalendar(random), someCalendar(random)}
			times := job.CalendarTimes{}
			for i, since := range []time.Time{time.Unix(0, 0), changed} {
				if times, err = times.Add(since, of[i]); err != nil {
					of[i] = job.Calendar{Hours: []string{"08:00..20:00"}}
					if times, err = times.Add(since, of[i]); err != nil {
						t.Fatal(err)
					}
				}
			}
			known[name], contents[name] = times, of
		}
		j = j.WithCalendars(known)
		schedule, err := j.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		at := changed.AddDate(0, 0, -10)
		end, last := at.AddDate(0, 0, 20), time.Time{}
		for tick := bare.Next(at); tick.Before(end); tick = bare.Next(tick) {
			i := 0
			if tick.After(changed) {
				i = 1
			}
			keeps := true
			for _, of := range j.Calendars {
				name, out := job.CalendarName(of)
				keeps = keeps && oracle(contents[name][i], tick) != out
			}
			if keeps != (j.LeftOutBy(tick) == "") {
				t.Fatalf("seed %d: %v is left out by %q", seed, tick, j.LeftOutBy(tick))
			}
			if !keeps {
				continue
			}
			if next := schedule.Next(at); !next.Equal(tick) {
				t.Fatalf("seed %d: %+v: the next after %v is %v, want %v", seed, contents, at, next, tick)
			}
			if prev := schedule.Prev(tick); !last.IsZero() && !prev.Equal(last) {
				t.Fatalf("seed %d: %+v: the one before %v is %v, want %v", seed, contents, tick, prev, last)
			}
			at, last = tick, tick
		}
	}
}

// TestCalendarsEnd: schedules of which nothing is left end, and that is found out soon.
func TestCalendarsEnd(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		schedule string
		calendar job.Calendar
		out      bool
		next     string // after 2026
	}{
		{"* * * * * *", job.Calendar{Hours: []string{"00:00..24:00"}}, true, ""},
		{"* * * * * *", job.Calendar{Dates: []string{"2026-12-24"}}, false, ""},
		{"@every 1s", job.Calendar{Dates: []string{"1980-12-24"}}, false, ""},
		{"0 0 12 * * *", job.Calendar{Hours: []string{"08:00..12:00", "12:01..20:00"}}, false, ""},
		{"0 0 12 * * *", job.Calendar{Yearly: []string{"02-29"}}, false, "2028-02-29T12:00:00Z"},
		{"0 0 12 * * *", job.Calendar{Dates: []string{"2027-01-01..2098-12-31"}}, true, "2099-01-01T12:00:00Z"},
	} {
		times, err := job.CalendarTimes{}.Add(time.Time{}, row.calendar)
		if err != nil {
			t.Fatal(err)
		}
		j := job.Job{Name: "job", Schedule: row.schedule, Calendars: []string{"c"}}
		if row.out {
			j.Calendars[0] = "-c"
		}
		schedule, err := j.WithCalendars(map[string]job.CalendarTimes{"c": times}).ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		got, begun := "", time.Now()
		if next := schedule.Next(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)); !next.IsZero() {
			got = next.Format(time.RFC3339)
		}
		if got != row.next {
			t.Errorf("%s with %+v: %q, want %q", row.schedule, row.calendar, got, row.next)
		}
		t.Logf("%s with %+v took %v", row.schedule, row.calendar, time.Since(begun))
	}
}

// TestJobCalendars: a job with calendars is valid without them, and has a schedule only with them.
func TestJobCalendars(t *testing.T) {
	t.Parallel()
	times, err := job.CalendarTimes{}.Add(time.Time{}, job.Calendar{Weekdays: []string{"sun"}})
	if err != nil {
		t.Fatal(err)
	}
	valid := job.Job{Name: "job", Schedule: "@daily", Calendars: []string{"-b", "a"}}
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	if normal := valid.Normal().Calendars; !slices.Equal(normal, []string{"-b", "a"}) {
		t.Error(normal)
	}
	for _, known := range []map[string]job.CalendarTimes{nil, {"a": times}, {"a": times, "b": {}}} {
		if _, err := valid.WithCalendars(known).ParseSchedule(); err == nil || !strings.Contains(err.Error(), "-b") {
			t.Errorf("with %v: %v, want that -b is missing", known, err)
		}
	}
	if _, err := valid.WithCalendars(map[string]job.CalendarTimes{"a": times, "b": times}).ParseSchedule(); err != nil {
		t.Error(err)
	}
	for _, calendars := range [][]string{{""}, {"-"}, {"--a"}, {"a/b"}, {"_a"}, {"a", "-a"}, slices.Repeat([]string{"a"}, job.MaxCalendars+1)} {
		if err := (job.Job{Name: "job", Schedule: "@daily", Calendars: calendars}).Validate(); err == nil {
			t.Errorf("%q is valid", calendars)
		}
	}
	for _, schedule := range []string{"@manually", "@always", "@at 2026-12-24T18:00:00Z"} {
		if err := (job.Job{Name: "job", Schedule: schedule, Calendars: []string{"a"}}).Validate(); err == nil {
			t.Errorf("%s with a calendar is valid", schedule)
		}
	}
}

// The spans of a calendar have all of its times, and end where it ends.
func TestCalendarSpans(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 27, 10, 20, 0, 0, time.UTC)
	for seed := range uint64(200) {
		c := someCalendar(rand.New(rand.NewPCG(seed, 0)))
		spans := c.Spans(begin, 3)
		at := begin
		for _, span := range spans {
			for ; at.Before(span.From); at = at.Add(37 * time.Minute) {
				if c.Contains(at) {
					t.Fatalf("%+v has %v, which is in none of %v", c, at, spans)
				}
			}
			if span.Until.IsZero() {
				span.Until = begin.AddDate(1, 0, 0)
			} else if c.Contains(span.Until) {
				t.Fatalf("%+v goes on at %v: %v", c, span.Until, spans)
			}
			for at = latest(span.From, begin); at.Before(span.Until); at = at.Add(37 * time.Minute) {
				if !c.Contains(at) {
					t.Fatalf("%+v does not have %v: %v", c, at, spans)
				}
			}
			at = span.Until
		}
		for ; len(spans) < 3 && at.Before(begin.AddDate(1, 0, 0)); at = at.Add(37 * time.Minute) {
			if c.Contains(at) {
				t.Fatalf("%+v has %v, which is in none of %v", c, at, spans)
			}
		}
	}
	if spans := (job.Calendar{Dates: []string{"no date"}}).Spans(begin, 1); spans != nil {
		t.Errorf("%v of an invalid calendar", spans)
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

package cronexpr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Words says in English when the schedule fires: "every day at 02:00 Europe/Berlin", "every 10
// seconds", "at minutes 5 and 35 of every hour, Monday to Friday, UTC". It gives the fields'
// meaning, not their form: */30 and 0,30 have the same words. Of two schedules in the same location
// with the same words, both fire at the same times.
func (s *Schedule) Words() string {
	switch r := s.rule.(type) {
	case window:
		return (&Schedule{loc: s.loc, rule: r.rule}).Words()
	case filtered:
		return (&Schedule{loc: s.loc, rule: r.rule}).Words()
	case *cron:
		return r.words()
	case every:
		return r.words()
	case after, common:
		return "at the times that the jobs before it have in common"
	case once:
		return "once, at " + strings.Replace(r.at.In(s.loc).Format("2006-01-02 15:04:05 -07:00"), "+00:00", "UTC", 1)
	case never:
		if r.always {
			return "all the time"
		}
	}
	return "only when it is triggered"
}

func (e every) words() string {
	const second, minute, day = 1000, 60_000, 86_400_000
	text := "every " + period(e.period)
	switch {
	case minute%e.period == 0:
		return text
	case day%e.period == 0:
		return text + " from 00:00 UTC"
	}
	return text + ", counted from 1970-01-01 00:00 UTC"
}

// period is "hour", "90 minutes" or "1 hour 30 seconds".
func period(ms int64) string {
	units := []struct {
		ms   int64
		name string
	}{{3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}}
	var parts []string
	for _, u := range units {
		switch n := ms / u.ms; {
		case n > 0 && ms%u.ms == 0 && len(parts) == 0:
			return times(n, u.name)
		case n > 0 || u.ms == 1000 && ms > 0:
			number := strconv.FormatInt(n, 10)
			if rest := ms % 1000; u.ms == 1000 && rest > 0 {
				number += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
			}
			parts = append(parts, number+" "+u.name+plural(number != "1"))
			ms %= u.ms
		}
	}
	return strings.Join(parts, " ")
}

// times is "hour" or "2 hours", after "every".
func times(n int64, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

func plural(many bool) string {
	if many {
		return "s"
	}
	return ""
}

func (c *cron) words() string {
	days, everyDay := c.dayWords()
	zone := c.loc.String()
	if at := c.clockTimes(); at != "" {
		if everyDay {
			days = strings.TrimSpace("every day " + days)
		}
		return days + " at " + at + " " + zone
	}
	text, anyZone := c.intervals()
	if days != "" {
		text += ", " + days
	}
	if anyZone && days == "" || zone == "UTC" && c.everyHour && days == "" {
		return text
	}
	return text + ", " + zone
}

// maxClockTimes is how many times of a day are listed.
const maxClockTimes = 4

// clockTimes is "02:00" or "09:00, 09:30 and 10:00"; "" if there are many.
func (c *cron) clockTimes() string {
	hours, minutes, seconds := c.hours.members(), c.minutes.members(), c.seconds.members()
	if len(seconds) != 1 || len(hours)*len(minutes) > maxClockTimes {
		return ""
	}
	var all []string
	for _, hour := range hours {
		for _, minute := range minutes {
			text := fmt.Sprintf("%02d:%02d", hour, minute)
			if seconds[0] != 0 {
				text += fmt.Sprintf(":%02d", seconds[0])
			}
			all = append(all, text)
		}
	}
	return listed(all)
}

// intervals says which times of a day match. anyZone: they are the same in all zones.
func (c *cron) intervals() (text string, anyZone bool) {
	sixty := run(0, secondField.max)
	allMinutes := c.minutes == sixty
	step, minuteStep := c.seconds.step(sixty), c.minutes.step(sixty)
	minutes := c.minutes.named("minute", &minuteField, strconv.Itoa)
	switch {
	case c.seconds == run(0, 0) && c.minutes == run(0, 0):
		return c.hourly(), false
	case c.seconds == run(0, 0) && minuteStep > 0:
		text = "every " + times(int64(minuteStep), "minute")
	case c.seconds == run(0, 0):
		return "at " + minutes + c.ofHours(), false
	case step > 0 && allMinutes:
		text = "every " + times(int64(step), "second")
	case step > 0:
		return "every " + times(int64(step), "second") + " of " + minutes + c.ofHours(), false
	case allMinutes:
		text = "at " + c.seconds.named("second", &secondField, strconv.Itoa) + " of every minute"
	default:
		return "at " + c.seconds.named("second", &secondField, strconv.Itoa) + " of " + minutes + c.ofHours(), false
	}
	if c.everyHour {
		return text, allMinutes
	}
	if all := c.hours.ranges(&hourField); len(all) == 1 {
		return text + fmt.Sprintf(" from %02d:00 to %02d:59", all[0][0], all[0][1]), false
	}
	return text + " in " + c.hours.named("hour", &hourField, strconv.Itoa), false
}

// hourly says in which hours there is a time, the full hour.
func (c *cron) hourly() string {
	if step := c.hours.step(run(0, hourField.max)); step > 0 {
		return "every " + times(int64(step), "hour")
	}
	if all := c.hours.ranges(&hourField); len(all) == 1 {
		return fmt.Sprintf("every hour from %02d:00 to %02d:00", all[0][0], all[0][1])
	}
	return "at minute 0" + c.ofHours()
}

func (c *cron) ofHours() string {
	if c.everyHour {
		return " of every hour"
	}
	return " of " + c.hours.named("hour", &hourField, strconv.Itoa)
}

// dayWords says on which days, in which months and years. If that is every day, everyDay is set and
// the words name the months and years alone, or are empty.
func (c *cron) dayWords() (text string, everyDay bool) {
	var parts []string
	month := "the month"
	if c.months != run(monthField.min, monthField.max) {
		month = c.months.text(&monthField, func(m int) string { return time.Month(m).String() })
	}
	days, ofMonth := dayPhrase(c.days, month)
	if days != "" {
		parts = append(parts, days)
	}
	if month != "the month" && !ofMonth {
		parts = append(parts, "in "+month)
	}
	if c.years != everyYear {
		parts = append(parts, "in "+c.years.text(&yearField, func(y int) string { return strconv.Itoa(y + firstYear) }))
	}
	if _, alternative := c.days.(either); alternative { // both are in those months
		return strings.Join(parts, ", "), days == ""
	}
	return strings.Join(parts, " "), days == ""
}

// dayPhrase says which days of a month a rule has; "" if all. ofMonth: the words name the month.
func dayPhrase(r dayRule, month string) (text string, ofMonth bool) {
	switch r := r.(type) {
	case dates:
		if set(r) == run(monthDayField.min, monthDayField.max) {
			return "", false
		}
		return "on " + set(r).named("day", &monthDayField, strconv.Itoa) + " of " + month, true
	case weekdays:
		return weekdayPhrase(set(r)), false
	case lastDay:
		if r.back > 0 {
			return fmt.Sprintf("%d day%s before the last day of %s", r.back, plural(r.back > 1), month), true
		}
		return "on the last day of " + month, true
	case lastWorkday:
		if r.back > 0 {
			return fmt.Sprintf("on the workday nearest to %d day%s before the last day of %s", r.back, plural(r.back > 1), month), true
		}
		return "on the last workday of " + month, true
	case workdayNear:
		return fmt.Sprintf("on the workday nearest to day %d of %s", r.day, month), true
	case lastOn:
		return fmt.Sprintf("on the last %s of %s", r.weekday, month), true
	case nthOn:
		return fmt.Sprintf("on the %s %s of %s", []string{"first", "second", "third", "fourth", "fifth"}[r.n-1], r.weekday, month), true
	case either:
		d, _ := dayPhrase(r.monthDay, "the month")
		w, _ := dayPhrase(r.weekDay, "")
		if d == "" || w == "" {
			return "", false
		}
		return d + " or on " + strings.TrimPrefix(w, "every "), false
	case both:
		d, ofMonth := dayPhrase(r.monthDay, month)
		w, _ := dayPhrase(r.weekDay, "")
		if d == "" || w == "" {
			return d + w, ofMonth
		}
		return d + " that fall on " + strings.TrimPrefix(w, "every "), true
	}
	return "", false
}

// weekdayPhrase is "every Monday", "Monday to Friday" or "Tuesday and Thursday"; "" if it is every
// day.
func weekdayPhrase(s set) string {
	var fromMonday set
	for _, day := range s.members() {
		fromMonday.add((day + 6) % 7)
	}
	week := field{min: 0, max: 6}
	if fromMonday == run(week.min, week.max) {
		return ""
	}
	text := fromMonday.text(&week, func(day int) string { return time.Weekday((day + 1) % 7).String() })
	if len(s.members()) == 1 {
		return "every " + text
	}
	return text
}

package imports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// bounds are when a trigger begins and ends; zero if it does not say.
type bounds struct{ start, end time.Time }

// The forms of xs:dateTime. One without a zone is in the machine's.
var dateTimes = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05"}

func (q *quartz) bounds(name string, e *element) (b bounds, ok bool) {
	zone, err := job.Job{TimeZone: q.opts.Zone}.Location()
	if err != nil {
		zone = time.UTC
	}
	for _, bound := range []struct {
		field string
		into  *time.Time
	}{{"start-time", &b.start}, {"end-time", &b.end}} {
		field, into, text := bound.field, bound.into, e.get(bound.field)
		if text == "" {
			continue
		}
		for i, layout := range dateTimes {
			if *into, err = time.ParseInLocation(layout, text, zone); err == nil {
				q.zoneless = q.zoneless || i == 1 && q.opts.Zone == ""
				*into = into.In(zone)
				break
			}
		}
		if err != nil {
			q.lostf(name, field, "correct it in the source", "there is no job for it: %q is not a time", part(text))
			return b, false
		}
	}
	if text := e.get("start-time-seconds-in-future"); text != "" {
		q.lostf(name, "start-time-seconds-in-future", "submit it when it is to begin", "runs from the moment of its submission, not %s s later", part(text))
	}
	if !b.end.IsZero() && !b.end.After(q.opts.Now) {
		q.lostf(name, "end-time", "nothing, if that is as it should be", "there is no job for it: it ended at %s", b.end)
		return b, false
	}
	return b, true
}

// timed sets the schedule and the misfire policy of a job. It returns false after a remark if that
// cannot be.
func (q *quartz) timed(j *job.Job, t *quartzTrigger, b bounds) bool {
	e := t.element
	if b.start.After(q.opts.Now) {
		j.NotBefore = b.start
	}
	if j.NotAfter = b.end; !b.end.IsZero() && t.kind != "cron" {
		j.NotAfter = b.end.Add(-time.Millisecond) // Quartz runs these up to the end, and not at it
	}
	misfire := strings.TrimPrefix(e.get("misfire-instruction"), "MISFIRE_INSTRUCTION_")
	forever := t.kind != "simple"
	switch t.kind {
	case "cron":
		j.Schedule, j.TimeZone = strings.Join(strings.Fields(e.get("cron-expression")), " "), q.zone(e.get("time-zone"))
	case "simple":
		count := e.get("repeat-count")
		forever = count == "-1" || count == "REPEAT_INDEFINITELY"
		if !q.simple(j, e, b, count, forever) {
			return false
		}
	case "calendar-interval":
		if !q.calendar(j, e, b) {
			return false
		}
	default:
		q.lostf(j.Name, t.kind, "swctl submit NAME SCHEDULE", "there is no job for it: triggers of this kind are not known")
		return false
	}
	q.misfire(j, misfire, t.kind, forever)
	return true
}

// misfire translates an instruction. The smart choice depends on the trigger.
func (q *quartz) misfire(j *job.Job, instruction, kind string, forever bool) {
	switch {
	case instruction == "" || instruction == "SMART_POLICY":
		j.Misfire = job.MisfireOnce
		if kind == "simple" && forever {
			j.Misfire = job.MisfireSkip // RESCHEDULE_NEXT_WITH_REMAINING_COUNT
		}
	case instruction == "DO_NOTHING" || strings.HasPrefix(instruction, "RESCHEDULE_NEXT_WITH_"):
		j.Misfire = job.MisfireSkip
	case instruction == "FIRE_ONCE_NOW" || instruction == "FIRE_NOW":
		j.Misfire = job.MisfireOnce
	case strings.HasPrefix(instruction, "RESCHEDULE_NOW_WITH_"):
		j.Misfire = job.MisfireOnce
		q.lostf(j.Name, "misfire-instruction", "nothing, if the multiples of the interval will do", "runs once for missed ticks, but later ticks keep their times: Quartz counts the interval from that run")
	case instruction == "IGNORE_MISFIRE_POLICY":
		j.Misfire = job.MisfireAll
		q.notef(j.Name, "misfire-instruction", "", "of more than %d missed ticks the latest run", job.MaxMisfires)
	default:
		q.lostf(j.Name, "misfire-instruction", "swctl set NAME --misfire POLICY", "%q is not known: the latest missed tick runs", part(instruction))
	}
}

// simple reads a simple trigger.
func (q *quartz) simple(j *job.Job, e *element, b bounds, count string, forever bool) bool {
	interval := e.get("repeat-interval")
	if count == "" || count == "0" {
		if b.start.IsZero() {
			q.lostf(j.Name, "simple", "swctl submit NAME @manually, and swctl trigger NAME", "there is no job for it: it runs once, when Quartz reads the file")
			return false
		}
		if !b.start.After(q.opts.Now) {
			q.lostf(j.Name, "start-time", "nothing, if it ran", "there is no job for it: its only run was due at %s", b.start)
			return false
		}
		j.Schedule = "@at " + b.start.UTC().Truncate(time.Second).Format(time.RFC3339)
		j.NotBefore, j.NotAfter = time.Time{}, time.Time{} // it has one tick
		return true
	}
	if repeats, err := strconv.Atoi(count); !forever && (err != nil || repeats < 0 || repeats >= job.MaxMaxRuns) {
		q.lostf(j.Name, "repeat-count", "swctl submit NAME @every --max-runs N", "there is no job for it: %q is not a number of repeats below %d", part(count), job.MaxMaxRuns)
		return false
	} else if !forever {
		if j.MaxRuns = repeats + 1; !b.start.After(q.opts.Now) {
			q.lostf(j.Name, "repeat-count", "swctl set NAME --max-runs N, if Quartz has run some of them", "runs %d times from its submission on", j.MaxRuns)
		}
	}
	ms, err := strconv.ParseInt(interval, 10, 64)
	if err != nil || ms < 1000 || ms > math.MaxInt64/int64(time.Millisecond) {
		q.lostf(j.Name, "repeat-interval", "a longer interval, or the schedule @always", "there is no job for it: the interval is %q ms, and the shortest is 1000", part(interval))
		return false
	}
	q.every(j, time.Duration(ms)*time.Millisecond, b)
	return true
}

// every makes a schedule of an interval: its ticks are at multiples of it since the Unix epoch.
func (q *quartz) every(j *job.Job, interval time.Duration, b bounds) {
	j.Schedule = "@every " + interval.String()
	switch {
	case b.start.IsZero():
		q.notef(j.Name, "start-time", "", "runs at the multiples of %s since 1970, not of the moment at which Quartz started", interval)
	case b.start.UnixMilli()%interval.Milliseconds() != 0:
		q.lostf(j.Name, "start-time", "a cron schedule, if the moment matters", "runs at the multiples of %s since 1970, not since %s", interval, b.start)
	}
}

// calendar reads a calendar-interval trigger.
func (q *quartz) calendar(j *job.Job, e *element, b bounds) bool {
	n, err := strconv.Atoi(e.get("repeat-interval"))
	unit := strings.TrimSuffix(strings.ToUpper(e.get("repeat-interval-unit")), "S")
	length := map[string]time.Duration{"SECOND": time.Second, "MINUTE": time.Minute, "HOUR": time.Hour}[unit]
	start := b.start
	switch {
	case err != nil || n < 1:
		q.lostf(j.Name, "repeat-interval", "correct it in the source", "there is no job for it: %q is not a number of intervals", part(e.get("repeat-interval")))
		return false
	case length > 0 && int64(n) <= math.MaxInt64/int64(length):
		q.every(j, time.Duration(n)*length, b)
		return true
	case n == 1 && start.IsZero():
		q.lostf(j.Name, "start-time", "swctl submit NAME SCHEDULE", "there is no job for it: without a start time its time of day is that at which Quartz started")
		return false
	case n == 1 && unit == "DAY":
		j.Schedule = fmt.Sprintf("%d %d %d * * ?", start.Second(), start.Minute(), start.Hour())
	case n == 1 && unit == "WEEK":
		j.Schedule = fmt.Sprintf("%d %d %d ? * %d", start.Second(), start.Minute(), start.Hour(), start.Weekday()+1)
	case n == 1 && unit == "MONTH" && start.Day() <= 28:
		j.Schedule = fmt.Sprintf("%d %d %d %d * ?", start.Second(), start.Minute(), start.Hour(), start.Day())
	case n == 1 && unit == "YEAR" && start.Day() <= 28:
		j.Schedule = fmt.Sprintf("%d %d %d %d %d ?", start.Second(), start.Minute(), start.Hour(), start.Day(), start.Month())
	default:
		q.lostf(j.Name, "repeat-interval-unit", "the nearest cron schedule: swctl help schedule", "there is no job for it: no schedule means each %d %s since a day", n, part(unit))
		return false
	}
	j.TimeZone = q.zone("")
	return true
}

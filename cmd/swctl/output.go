package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// zoneOf is the time zone of a job; UTC when it names none that exists.
func zoneOf(job admin.Job) *time.Location {
	loc, err := time.LoadLocation(cmp.Or(job.TimeZone, "UTC"))
	if err != nil {
		return time.UTC
	}
	return loc
}

// zoneName is the time zone of a job by name, and handlerName the handler that
// runs it, defaults filled in. Of a job whose record cannot be read, which has
// no schedule either, both are unknown and empty.
func zoneName(job admin.Job) string {
	if job.Schedule == "" {
		return job.TimeZone
	}
	return cmp.Or(job.TimeZone, "UTC")
}

func handlerName(job admin.Job) string {
	if job.Schedule == "" {
		return job.Handler
	}
	return cmp.Or(job.Handler, job.Name)
}

// absolute is a moment in full; empty for the zero time.
func absolute(t time.Time, loc *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return t.In(loc).Format(abbreviated)
}

// relative is a moment seen from now: "in 15h48m", "8h ago", "now"; empty for
// the zero time.
func relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return ""
	case d >= time.Second:
		return "in " + span(d)
	case d <= -time.Second:
		return span(-d) + " ago"
	}
	return "now"
}

// moment is both: "2026-11-22 03:00:00 CET (in 18h36m)".
func moment(t, now time.Time, loc *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", absolute(t, loc), relative(t, now))
}

// span is a duration in its two largest units, rounded down: 3d4h, 15h48m,
// 2m14s, 41s, 8h. Below a second it is in milliseconds.
func span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, unit := range units {
		if d < unit.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/unit.size, unit.name)
		if i+1 < len(units) {
			if rest := d % unit.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
}

// exact is a duration in full: 1m30s, 10m, 1.5s; 0 for none.
func exact(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	if d == 0 {
		return "0"
	}
	return text
}

// ownerOf names the owner of a job, or says none.
func ownerOf(job admin.JobStatus) string {
	if len(job.Slots) > 0 {
		return ownerSummary(job.Slots)
	}
	if job.Owner == nil {
		return "none"
	}
	return job.Owner.InstanceID
}

// quoted is a name as it can be typed in a shell.
func quoted(name string) string {
	plain := func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

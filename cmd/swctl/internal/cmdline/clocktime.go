package cmdline

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// ClockTime is a time as a person types it: its meaning depends on the time zone of a job that is
// not known yet.
type ClockTime struct{ flag, layout, text string }

// clockLayouts are the forms, those that swctl prints among them. RFC 3339 is
// the first that includes a zone.
var clockLayouts = []string{
	time.RFC3339, "2006-01-02 15:04:05Z07:00",
	plain.TimeLayout, "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	time.TimeOnly, "15:04", // today
}

// ParseClockTime reads the value of a flag.
func ParseClockTime(flag, text string) (ClockTime, error) {
	for _, layout := range clockLayouts {
		if _, err := time.Parse(layout, text); err == nil {
			return ClockTime{flag, layout, text}, nil
		}
	}
	return ClockTime{}, Usage("--%s %q: is not a time", flag, text).
		Try("15:04, '2006-01-02 15:04' or '2006-01-02 15:04:05', in the job's time zone, or 2006-01-02T15:04:05Z")
}

// Given reports whether a time was typed.
func (t ClockTime) Given() bool { return t.text != "" }

// In is the time in a zone. A time without a date is today's.
func (t ClockTime) In(zone *time.Location, now time.Time) (time.Time, error) {
	layout, text := t.layout, t.text
	if layout == time.TimeOnly || layout == "15:04" {
		layout, text = time.DateOnly+" "+layout, now.In(zone).Format(time.DateOnly)+" "+text
	}
	parsed, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return time.Time{}, Usage("--%s: %w", t.flag, err) // not after parseClockTime
	}
	name, offset := parsed.Zone()
	if parsed.Location() != zone && layout == plain.TimeLayout && offset == 0 && name != "UTC" && name != "GMT" {
		// time.Parse makes up a zone if it does not know one.
		return time.Time{}, Usage("--%s %q: %s is not a time zone of %s", t.flag, t.text, name, zone).Try("leave it out")
	}
	return parsed, nil
}

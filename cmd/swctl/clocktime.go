package main

import "time"

// clockTime is a time as a person types it: what it means depends on the time
// zone of a job that is not known yet.
type clockTime struct{ flag, layout, text string }

// abbreviated is how swctl prints times.
const abbreviated = "2006-01-02 15:04:05 MST"

// clockLayouts are the forms, those that swctl prints among them. RFC 3339 is
// the first that has a zone of its own.
var clockLayouts = []string{
	time.RFC3339, "2006-01-02 15:04:05Z07:00",
	abbreviated, "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	time.TimeOnly, "15:04", // today
}

func parseClockTime(flag, text string) (clockTime, error) {
	for _, layout := range clockLayouts {
		if _, err := time.Parse(layout, text); err == nil {
			return clockTime{flag, layout, text}, nil
		}
	}
	return clockTime{}, usage("--%s %q: is no time", flag, text).
		try("15:04, '2006-01-02 15:04' or '2006-01-02 15:04:05', in the job's time zone, or 2006-01-02T15:04:05Z")
}

func (t clockTime) given() bool { return t.text != "" }

// in is the time in a zone. A time without a date is today's.
func (t clockTime) in(zone *time.Location, now time.Time) (time.Time, error) {
	layout, text := t.layout, t.text
	if layout == time.TimeOnly || layout == "15:04" {
		layout, text = time.DateOnly+" "+layout, now.In(zone).Format(time.DateOnly)+" "+text
	}
	parsed, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return time.Time{}, usage("--%s: %w", t.flag, err) // not after parseClockTime
	}
	name, offset := parsed.Zone()
	if parsed.Location() != zone && layout == abbreviated && offset == 0 && name != "UTC" && name != "GMT" {
		// time.Parse makes up a zone for what it does not know.
		return time.Time{}, usage("--%s %q: %s is not a time zone of %s", t.flag, t.text, name, zone).try("leave it out")
	}
	return parsed, nil
}

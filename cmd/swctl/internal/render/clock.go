package render

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Clock has times in the form that a reader wants. Cells of tables need no more of a Page.
type Clock struct {
	Now   time.Time // relative times count from it
	Times string    // one of those below; "" means that each table knows best
}

// The forms of times that a reader can want.
const (
	TimesRelative = "relative"
	TimesLocal    = "local"
	TimesUTC      = "utc"
)

// moment is a time in full and seen from now; "-" for the zero time.
func (c Clock) moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	return plain.Moment(t, c.Now, c.in(zone))
}

// ago is a moment that tables have relative to now, and at one that they have in full, unless the
// reader wants otherwise.
func (c Clock) ago(t time.Time) string {
	if c.Times == TimesLocal || c.Times == TimesUTC {
		return plain.Absolute(t, c.in(nil))
	}
	return plain.Relative(t, c.Now)
}

// at is a moment that tables have in full, unless the reader wants otherwise.
func (c Clock) at(t time.Time, zone *time.Location) string {
	if c.Times == TimesRelative {
		return plain.Relative(t, c.Now)
	}
	return plain.Absolute(t, c.in(zone))
}

// in is the zone that the reader wants, or that one.
func (c Clock) in(zone *time.Location) *time.Location {
	switch c.Times {
	case TimesLocal:
		return time.Local //nolint:gosmopolitan // it is what the reader asks for
	case TimesUTC:
		return time.UTC
	}
	return zone
}

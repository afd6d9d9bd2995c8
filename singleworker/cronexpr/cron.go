package cronexpr

import "time"

// A cron is the rule of an expression of five to seven fields: a calendar of
// walls, and the zone that determines when a clock shows them.
//
// A clock change makes that ambiguous; everyHour selects between the two ways to resolve it. See
// the package comment for their meaning to a user.
type cron struct {
	calendar
	loc *time.Location

	// everyHour is set if the hour field allows all hours. The schedule then
	// follows elapsed time: it fires at every second at which the clock shows
	// a wall of the calendar. Otherwise it follows the wall clock: each wall
	// fires once, when the clock first shows it or a later one.
	everyHour bool
}

func newCron(c calendar, loc *time.Location) *cron {
	return &cron{calendar: c, loc: loc, everyHour: c.hours == run(hourField.min, hourField.max)}
}

func (c *cron) next(after time.Time) (time.Time, bool) {
	first := after.Unix() + 1 // Unix rounds down, so this is the next whole second
	if c.everyHour {
		return c.nextElapsed(first)
	}
	w, ok := c.seek(highWater(c.loc, first-1)+1, forward)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(reach(c.loc, w), 0), true
}

func (c *cron) prev(before time.Time) (time.Time, bool) {
	last := before.Unix()
	if before.Nanosecond() == 0 {
		last--
	}
	if c.everyHour {
		return c.prevElapsed(last)
	}
	w, ok := c.seek(highWater(c.loc, last), backward)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(reach(c.loc, w), 0), true
}

// nextElapsed searches span by span: within a span the offset is constant.
func (c *cron) nextElapsed(first int64) (time.Time, bool) {
	for {
		sp := spanAt(c.loc, first)
		w, ok := c.seek(sp.wall(first), forward)
		switch {
		case ok && sp.unix(w) < sp.end:
			return time.Unix(sp.unix(w), 0), true
		case sp.end <= first+slack:
			first = sp.end // where the clock may be set back to before w
		case !ok:
			return time.Time{}, false
		default:
			first = max(sp.end, int64(w)-slack) // before which no clock shows w
		}
	}
}

// prevElapsed is the mirror of nextElapsed.
func (c *cron) prevElapsed(last int64) (time.Time, bool) {
	for {
		sp := spanAt(c.loc, last)
		w, ok := c.seek(sp.wall(last), backward)
		switch {
		case ok && sp.unix(w) >= sp.start:
			return time.Unix(sp.unix(w), 0), true
		case sp.start > last-slack:
			last = sp.start - 1 // where the clock may have been ahead of w
		case !ok:
			return time.Time{}, false
		default:
			last = min(sp.start-1, int64(w)+slack) // after which no clock shows w
		}
	}
}

package cronexpr

import "time"

// The years in which a schedule can fire. 1970 is where Quartz starts. Quartz
// ends a hundred years from now; here the end is fixed, so that the meaning of
// an expression does not depend on when it is parsed.
const (
	firstYear = 1970
	lastYear  = 2099
)

// everyYear holds all years, counted from firstYear.
var everyYear = run(0, lastYear-firstYear)

// A wall is a wall-clock reading in seconds, counted as if clocks never
// changed: 0 is 1970-01-01 00:00:00 in any zone. The calendar works on walls
// only, so it needs no zones.
type wall int64

// The first and the last wall of the calendar.
const (
	firstWall wall = 0
	lastWall  wall = 4102444800 - 1 // 2099-12-31 23:59:59
)

// A calendar is the set of walls that match a cron expression.
type calendar struct {
	years                   set // counted from firstYear
	months                  set // 1 to 12
	days                    dayRule
	hours, minutes, seconds set
}

// A direction of a search: forward to later or backward to earlier walls.
type direction int

const (
	forward  direction = +1
	backward direction = -1
)

// seek returns the first wall of the calendar at or beyond from in direction
// dir. ok is false if there is no such wall.
func (c *calendar) seek(from wall, dir direction) (w wall, ok bool) {
	o := newOdometer(c, from, dir)
	if !o.run() {
		return 0, false
	}
	return o.wall(), true
}

// The wheels of an odometer, largest unit first.
const (
	yearWheel = iota
	monthWheel
	dayWheel
	hourWheel
	minuteWheel
	secondWheel
	wheels
)

// lowest and highest are where each wheel starts when a larger one has moved,
// by direction. No month needs its own highest day: the day rule never offers
// a day that the month lacks.
var (
	lowest  = [wheels]int{0, 1, 1, 0, 0, 0}
	highest = [wheels]int{lastYear - firstYear, 12, 31, 23, 59, 59}
)

// An odometer searches a calendar from the largest unit to the smallest. Each
// wheel turns to the nearest value that its field allows. If it moved, the
// smaller wheels start over; if there is no such value, the next larger wheel
// moves one further. So skipping a year is as cheap as skipping a second.
type odometer struct {
	calendar *calendar
	dir      direction
	at       [wheels]int

	// turns counts the wheels visited. Only tests read it, to check a bound.
	turns int
}

func newOdometer(c *calendar, from wall, dir direction) *odometer {
	t := time.Unix(int64(from), 0).UTC()
	return &odometer{
		calendar: c,
		dir:      dir,
		at: [wheels]int{
			t.Year() - firstYear, int(t.Month()), t.Day(),
			t.Hour(), t.Minute(), t.Second(),
		},
	}
}

// run turns the wheels until all of them match, and reports whether they do.
func (o *odometer) run() bool {
	wheel := yearWheel
	for wheel < wheels {
		o.turns++
		v := o.allowed(wheel).nearest(o.at[wheel], o.dir)
		switch {
		case v < 0 && wheel == yearWheel:
			return false
		case v < 0:
			wheel--
			o.set(wheel, o.at[wheel]+int(o.dir))
		case v == o.at[wheel]:
			wheel++
		default:
			o.set(wheel, v)
			wheel++
		}
	}
	return true
}

// set moves a wheel to v and resets all smaller ones. v may be one past the
// wheel's range: its next turn then carries to the larger wheel.
func (o *odometer) set(wheel, v int) {
	start := &lowest
	if o.dir == backward {
		start = &highest
	}
	o.at[wheel] = v
	copy(o.at[wheel+1:], start[wheel+1:])
}

// allowed returns the values that a wheel may have, given the larger wheels.
func (o *odometer) allowed(wheel int) set {
	switch wheel {
	case yearWheel:
		return o.calendar.years
	case monthWheel:
		return o.calendar.months
	case dayWheel:
		return o.calendar.days.days(monthOf(firstYear+o.at[yearWheel], time.Month(o.at[monthWheel])))
	case hourWheel:
		return o.calendar.hours
	case minuteWheel:
		return o.calendar.minutes
	default:
		return o.calendar.seconds
	}
}

func (o *odometer) wall() wall {
	return wall(time.Date(firstYear+o.at[yearWheel], time.Month(o.at[monthWheel]), o.at[dayWheel],
		o.at[hourWheel], o.at[minuteWheel], o.at[secondWheel], 0, time.UTC).Unix())
}

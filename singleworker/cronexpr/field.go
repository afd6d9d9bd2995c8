package cronexpr

import (
	"fmt"
	"slices"
	"strings"
)

// A field describes one position of a cron text.
type field struct {
	name     string
	min, max int      // the values that * stands for
	top      int      // the largest value accepted, if not max: 7 is Sunday again
	names    []string // the first one stands for min
	base     int      // subtracted from a value to give the member of its set
	maxStep  int
	linear   bool // a range may not wrap around
}

var (
	monthNames   = strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
	weekdayNames = strings.Fields("SUN MON TUE WED THU FRI SAT")

	secondField   = field{name: "second", min: 0, max: 59, maxStep: 59}
	minuteField   = field{name: "minute", min: 0, max: 59, maxStep: 59}
	hourField     = field{name: "hour", min: 0, max: 23, maxStep: 23}
	monthDayField = field{name: "day-of-month", min: 1, max: 31, maxStep: 31}
	monthField    = field{name: "month", min: 1, max: 12, names: monthNames, maxStep: 12}
	yearField     = field{name: "year", min: firstYear, max: lastYear, base: firstYear,
		maxStep: lastYear - firstYear, linear: true}

	// The two dialects number the weekdays differently; their sets hold a
	// time.Weekday all the same.
	quartzWeekdayField  = field{name: "day-of-week", min: 1, max: 7, names: weekdayNames, base: 1, maxStep: 7}
	crontabWeekdayField = field{name: "day-of-week", min: 0, max: 6, top: 7, names: weekdayNames, maxStep: 7}
)

// limit returns the largest value the field accepts.
func (f *field) limit() int { return max(f.max, f.top) }

// want returns what a value of the field may be, for an Error.
func (f *field) want() string {
	s := fmt.Sprintf("%d-%d", f.min, f.limit())
	if f.names != nil {
		s += fmt.Sprintf(" or %s-%s", f.names[0], f.names[len(f.names)-1])
	}
	return s
}

// lookup returns the value of a name, or the least value when ok is false.
func (f *field) lookup(name string) (value int, ok bool) {
	i := slices.Index(f.names, name)
	return f.min + max(i, 0), i >= 0
}

package cronexpr

import (
	"fmt"
	"slices"
	"strings"
)

// A field describes one field of a cron expression.
type field struct {
	name     string
	min, max int      // the values that * means
	top      int      // the largest valid value, if not max: 7 is Sunday again
	names    []string // the first is the name of min
	base     int      // subtracted from a value to get the member of its set
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

	// The two dialects number weekdays differently. The sets of both hold
	// time.Weekday values.
	quartzWeekdayField  = field{name: "day-of-week", min: 1, max: 7, names: weekdayNames, base: 1, maxStep: 7}
	crontabWeekdayField = field{name: "day-of-week", min: 0, max: 6, top: 7, names: weekdayNames, maxStep: 7}
)

// limit returns the largest valid value.
func (f *field) limit() int { return max(f.max, f.top) }

// want describes the valid values, for an Error.
func (f *field) want() string {
	s := fmt.Sprintf("%d-%d", f.min, f.limit())
	if f.names != nil {
		s += fmt.Sprintf(" or %s-%s", f.names[0], f.names[len(f.names)-1])
	}
	return s
}

// lookup returns the value of a name; if ok is false, it returns min.
func (f *field) lookup(name string) (value int, ok bool) {
	i := slices.Index(f.names, name)
	return f.min + max(i, 0), i >= 0
}

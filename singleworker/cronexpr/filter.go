package cronexpr

import "time"

// A Filter keeps some times, and leaves the others out. It must be immutable and safe for
// concurrent use.
type Filter interface {
	// Keeps reports whether a time is kept. The answer is the same for all times from the first that
	// it returns up to, but without, the second. It is also the same up to the end of time if the
	// second is zero, and from its beginning if the first is.
	Keeps(t time.Time) (kept bool, from, until time.Time)
}

// filtered is a rule's times that all filters keep.
type filtered struct {
	rule
	filters []Filter
}

// Only returns the schedule's times that all filters keep, up to the year 2099: a filter may leave
// out all. Its String and its Words are the schedule's, and say nothing of filters. A schedule that
// has no times, or a single one, is returned as it is.
func (s *Schedule) Only(filters ...Filter) *Schedule {
	if len(filters) == 0 || s.isTimeless() || s.Once() {
		return s
	}
	return &Schedule{text: s.text, loc: s.loc, rule: filtered{s.rule, filters}}
}

// Periods reach farther than the times of other schedules.
var (
	firstKept = time.Date(1969, time.December, 30, 0, 0, 0, 0, time.UTC)
	lastKept  = time.Date(2100, time.January, 2, 0, 0, 0, 0, time.UTC)
)

func (f filtered) next(after time.Time) (time.Time, bool) {
	if after.Before(firstKept) {
		after = firstKept
	}
	for {
		t, ok := f.rule.next(after)
		if !ok || t.After(lastKept) {
			return t, false
		}
		kept, _, until := f.keep(t)
		if kept || until.IsZero() {
			return t, kept
		}
		after = until.Add(-1)
	}
}

func (f filtered) prev(before time.Time) (time.Time, bool) {
	if before.After(lastKept) {
		before = lastKept
	}
	for {
		t, ok := f.rule.prev(before)
		if !ok || t.Before(firstKept) {
			return t, false
		}
		kept, from, _ := f.keep(t)
		if kept || from.IsZero() {
			return t, kept
		}
		before = from
	}
}

// keep is the answer of the first filter that leaves a time out.
func (f filtered) keep(t time.Time) (kept bool, from, until time.Time) {
	for _, one := range f.filters {
		if kept, from, until := one.Keeps(t); !kept {
			return false, from, until
		}
	}
	return true, from, until
}

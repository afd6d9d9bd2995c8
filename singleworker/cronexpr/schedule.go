package cronexpr

import "time"

// A Schedule is a set of times at which something is to happen. Parse makes
// one; the zero value is not usable. A Schedule never changes and may be used
// by any number of goroutines at once.
type Schedule struct {
	text string
	loc  *time.Location
	rule rule
}

// A rule computes the fires of one kind of schedule. ok is false when there is
// none; the time is then meaningless. The location of the result is too.
type rule interface {
	next(after time.Time) (t time.Time, ok bool)
	prev(before time.Time) (t time.Time, ok bool)
}

// Any time before distantPast or after distantFuture is as good as these two:
// no schedule fires beyond them in any zone. They keep seconds and
// milliseconds of absurd times away from integer overflow.
var (
	distantPast   = time.Unix(-1<<40, 0)
	distantFuture = time.Unix(1<<40, 0)
)

// Next returns the first time strictly after after at which the schedule
// fires, in the location of the schedule. It returns the zero Time when the
// schedule does not fire again. Any after is allowed, in any location.
//
// What Parse accepts fires at some time between 1970 and 2099, but perhaps
// not after a given one: whoever knows the present refuses a schedule whose
// Next is zero.
func (s *Schedule) Next(after time.Time) time.Time {
	return s.result(s.rule.next(clamp(after)))
}

// Prev returns the last time strictly before before at which the schedule
// fires, in the location of the schedule. It returns the zero Time when the
// schedule has not fired before. It is the mirror of Next: both walk the same
// fires, and Prev(t) is f exactly if t is later than f and no later than
// Next(f).
func (s *Schedule) Prev(before time.Time) time.Time {
	return s.result(s.rule.prev(clamp(before)))
}

// String returns the text of the schedule in canonical form: single spaces,
// names in capitals, descriptors in small letters with their common name, a
// period as time.Duration prints it, and the time of @at in UTC. Parsed in the
// same location it gives a schedule with the same fires and the same String.
func (s *Schedule) String() string { return s.text }

// Location returns the location in whose wall-clock time the schedule is
// computed and in which Next and Prev return their results. It is never nil.
func (s *Schedule) Location() *time.Location { return s.loc }

func (s *Schedule) result(t time.Time, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return t.In(s.loc)
}

func clamp(t time.Time) time.Time {
	switch {
	case t.Before(distantPast):
		return distantPast
	case t.After(distantFuture):
		return distantFuture
	}
	return t
}

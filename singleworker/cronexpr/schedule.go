package cronexpr

import (
	"sync/atomic"
	"time"
)

// A Schedule is a set of times at which something fires. Create one with Parse;
// the zero value is not usable. A Schedule is immutable and safe for concurrent
// use.
type Schedule struct {
	text  string
	loc   *time.Location
	rule  rule
	found atomic.Pointer[found] // by Next, of late
}

// A found is the times that Next has found in a period: thousands of jobs that share a schedule ask
// for the same few times. It has no monotonic times.
type found struct {
	from          time.Time
	first, second time.Time // after from; second is zero if nobody has asked for it
}

// next is the first time after t, if that was found.
func (f *found) next(t time.Time) (next time.Time, ok bool) {
	switch {
	case f == nil || t.Before(f.from):
		return time.Time{}, false
	case t.Before(f.first):
		return f.first, true
	}
	return f.second, t.Before(f.second)
}

// with adds that next is the first time after t, and forgets times that are not adjacent to it, or
// more than two.
func (f *found) with(t, next time.Time) *found {
	switch {
	case f == nil:
	case f.second.IsZero() && t.Equal(f.first):
		return &found{f.from, f.first, next}
	case !f.second.IsZero() && t.Equal(f.second):
		return &found{f.first, f.second, next}
	}
	return &found{from: t.Round(0), first: next}
}

// A rule computes the times of one kind of schedule. ok is false if there is no
// such time; t is then meaningless. The location of t is always meaningless.
type rule interface {
	next(after time.Time) (t time.Time, ok bool)
	prev(before time.Time) (t time.Time, ok bool)
}

// No schedule fires before distantPast or after distantFuture in any zone.
// Arguments are clamped to them so that seconds and milliseconds cannot overflow.
var (
	distantPast   = time.Unix(-1<<40, 0)
	distantFuture = time.Unix(1<<40, 0)
)

// Next returns the first time strictly after the given one at which the schedule
// fires, in the schedule's location. It returns the zero Time if the schedule
// does not fire again. The argument may be any time, in any location.
//
// Every schedule that Parse accepts fires at some time between 1970 and 2099, but not necessarily
// in the future; only one that is Manual or Always, or After without Common, never fires. To reject
// schedules that have ended, check Ended.
func (s *Schedule) Next(after time.Time) time.Time {
	after = clamp(after)
	f := s.found.Load()
	if next, ok := f.next(after); ok {
		return next
	}
	next := s.result(s.rule.next(after))
	if !next.IsZero() {
		s.found.Store(f.with(after, next))
	}
	return next
}

// Prev returns the last time strictly before the given one at which the schedule
// fires, in the schedule's location. It returns the zero Time if the schedule has
// not fired before. It mirrors Next: Prev(t) is f if and only if t is later than f
// and no later than Next(f).
func (s *Schedule) Prev(before time.Time) time.Time {
	return s.result(s.rule.prev(clamp(before)))
}

// Manual reports whether the schedule is @manually: it has no times.
func (s *Schedule) Manual() bool {
	r, is := s.rule.(never)
	return is && !r.always
}

// Always reports whether the schedule is @always: such a schedule has no times, and its job runs
// all the time.
func (s *Schedule) Always() bool {
	r, is := s.rule.(never)
	return is && r.always
}

// Once reports whether the schedule is @at: it has one time.
func (s *Schedule) Once() bool {
	_, is := s.rule.(once)
	return is
}

// Ended reports whether the schedule had times and has none after t.
func (s *Schedule) Ended(t time.Time) bool { return !s.isTimeless() && s.Next(t).IsZero() }

// isTimeless reports whether no time belongs to the schedule's kind, or none yet, see After.
func (s *Schedule) isTimeless() bool { return s.Manual() || s.Always() || s.rule == (after{}) }

// String returns the schedule in canonical form: single spaces, names in upper
// case, descriptors in lower case with their common name, a period as
// time.Duration formats it, and the time of @at in UTC. Parsing it in the same
// location gives a schedule with the same times and the same String.
func (s *Schedule) String() string { return s.text }

// Location returns the location of the schedule, in which Next and Prev return
// their results. It is never nil.
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

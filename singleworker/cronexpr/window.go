package cronexpr

import "time"

// window is a rule's times from one time to another, both included. A zero time is no bound.
type window struct {
	rule
	from, to time.Time
}

// Within returns the times of the schedule from one time to another, both included. A zero time is
// no bound. Its String and its Words are the schedule's, and say nothing of the bounds. A schedule
// that has no times is returned as it is.
func (s *Schedule) Within(from, to time.Time) *Schedule {
	if from.IsZero() && to.IsZero() || s.isTimeless() {
		return s
	}
	return &Schedule{text: s.text, loc: s.loc, rule: window{s.rule, from, to}}
}

func (w window) next(after time.Time) (t time.Time, ok bool) {
	if before := w.from.Add(-1); !w.from.IsZero() && after.Before(before) {
		after = before
	}
	t, ok = w.rule.next(after)
	return t, ok && (w.to.IsZero() || !t.After(w.to))
}

func (w window) prev(before time.Time) (t time.Time, ok bool) {
	if after := w.to.Add(1); !w.to.IsZero() && after.Before(before) {
		before = after
	}
	t, ok = w.rule.prev(before)
	return t, ok && !t.Before(w.from)
}

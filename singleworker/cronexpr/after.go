package cronexpr

import (
	"slices"
	"time"
)

// after is the rule of @after: it has no times until Common gives it the times of other schedules.
type after struct{}

func (after) next(time.Time) (t time.Time, ok bool) { return t, false }
func (after) prev(time.Time) (t time.Time, ok bool) { return t, false }

// After reports whether the schedule is @after: its times are those that other schedules have in
// common, see Common.
func (s *Schedule) After() bool { return s.text == textAfter }

const textAfter = "@after"

// A Turn is a schedule that holds for the times after Since, up to the Since of the next one.
type Turn struct {
	Schedule *Schedule // nil if it is not known: then these times are none
	Since    time.Time
}

// InTurn is the schedule that is each of the turns in its time, the earliest first. It has no time
// up to the Since of the first. Its String is the last one's.
func InTurn(turns ...Turn) *Schedule {
	last := turns[len(turns)-1].Schedule
	return &Schedule{text: last.text, loc: last.loc, rule: inTurn(turns)}
}

type inTurn []Turn

func (r inTurn) next(after time.Time) (t time.Time, ok bool) {
	for i, turn := range r {
		last := i == len(r)-1
		if turn.Schedule == nil || !last && !after.Before(r[i+1].Since) {
			continue
		}
		if after.Before(turn.Since) {
			after = turn.Since
		}
		if t, ok = turn.Schedule.rule.next(after); ok && (last || !t.After(r[i+1].Since)) {
			return t, true
		}
	}
	return t, false
}

func (r inTurn) prev(before time.Time) (t time.Time, ok bool) {
	for i, turn := range slices.Backward(r) {
		if i < len(r)-1 && before.After(r[i+1].Since) {
			before = r[i+1].Since.Add(1)
		}
		if turn.Schedule == nil || !before.After(turn.Since) {
			continue
		}
		if t, ok = turn.Schedule.rule.prev(before); ok && t.After(turn.Since) {
			return t, true
		}
	}
	return t, false
}

// Common returns a schedule that is After with the times that all others have, of which there is
// one at least.
func (s *Schedule) Common(others ...*Schedule) *Schedule {
	rules := make(common, len(others))
	for i, other := range others {
		rules[i] = other.rule
	}
	return &Schedule{text: s.text, loc: s.loc, rule: rules}
}

// common is the times that all of its rules have.
type common []rule

// maxLeaps bounds the search for the next common time, each leap to a later time of some rule:
// rules that never meet would have it go on to the year 2099, which takes hours if they fire each
// second. Daily times are followed for more than a century, minutes for two weeks.
const maxLeaps = 50_000

func (c common) next(after time.Time) (time.Time, bool) {
	return c.meet(after, func(r rule, t time.Time) (time.Time, bool) { return r.next(t.Add(-1)) }, rule.next)
}

func (c common) prev(before time.Time) (time.Time, bool) {
	return c.meet(before, func(r rule, t time.Time) (time.Time, bool) { return r.prev(t.Add(1)) }, rule.prev)
}

// meet leaps from rule to rule until all of them have the same time: beyond is a rule's first time
// beyond another, and from the first one at it or beyond it.
func (c common) meet(start time.Time, from, beyond func(rule, time.Time) (time.Time, bool)) (time.Time, bool) {
	t, ok := beyond(c[0], start)
	for i, agreed := 1, 1; ok && agreed < len(c); i++ {
		if i > maxLeaps {
			return t, false
		}
		var other time.Time
		if other, ok = from(c[i%len(c)], t); other.Equal(t) {
			agreed++
		} else {
			t, agreed = other, 1
		}
	}
	return t, ok
}

package cronexpr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A naive schedule is a second, brute-force implementation: the text of each
// field with a predicate, and a clock that is watched second by second.
type naive struct {
	text   string
	fields [6]func(local time.Time) bool // second minute hour day month weekday
}

func (n naive) matches(w wall) bool {
	local := time.Unix(int64(w), 0).UTC()
	for _, f := range n.fields {
		if !f(local) {
			return false
		}
	}
	return true
}

// A watched clock is a record of a zone's clock, second by second.
type watched struct {
	start int64
	shown []wall
}

// watch records a clock from one time to another, and for a while before.
func watch(loc *time.Location, from, to int64) watched {
	w := watched{start: from - 2*secondsPerDay} // a repeated hour may have begun before from
	for at := w.start; at <= to; at++ {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		w.shown = append(w.shown, wall(at+int64(offset)))
	}
	return w
}

// fires returns the times at which the schedule fires, from the given time
// (inclusive) to the end of the record.
func (n naive) fires(clock watched, from int64, elapsed bool) []int64 {
	var fires []int64
	high := clock.shown[0] // the latest that the clock has shown
	for i, shown := range clock.shown {
		at := clock.start + int64(i)
		if at >= from {
			fire := elapsed && n.matches(shown)
			for w := high + 1; !elapsed && w <= shown; w++ {
				fire = fire || n.matches(w)
			}
			if fire {
				fires = append(fires, at)
			}
		}
		high = max(high, shown)
	}
	return fires
}

// numeric makes a random list of values, ranges and steps from lo to hi, and the plain list of its
// values.
func numeric(rnd *rand.Rand, lo, hi int, get func(time.Time) int) (string, func(time.Time) bool) {
	var items []string
	member := map[int]bool{}
	for range 1 + rnd.IntN(3) {
		a, b, step := lo+rnd.IntN(hi-lo+1), lo+rnd.IntN(hi-lo+1), 1+rnd.IntN((hi-lo)/2)
		switch rnd.IntN(4) {
		case 0:
			items = append(items, strconv.Itoa(a))
			b = a
		case 1:
			items = append(items, fmt.Sprintf("%d/%d", a, step))
			b = hi
		case 2:
			items = append(items, fmt.Sprintf("%d-%d/%d", a, b, step))
		default:
			items = append(items, fmt.Sprintf("%d-%d", a, b))
			step = 1
		}
		for v, left := a, (b-a+hi-lo+1)%(hi-lo+1); left >= 0; left -= step {
			member[v] = true
			for range step {
				if v++; v > hi {
					v = lo
				}
			}
		}
	}
	return strings.Join(items, ","), func(t time.Time) bool { return member[get(t)] }
}

func always(time.Time) bool { return true }

// A namedDay is a day rule and an independent definition of it.
type namedDay struct {
	monthDay, weekDay string
	fires             func(t time.Time) bool
}

func namedDays() []namedDay {
	last := func(t time.Time) int { return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	near := func(target func(t time.Time) int) func(time.Time) bool {
		return func(t time.Time) bool {
			day := target(t)
			if day < 1 || day > last(t) {
				return false
			}
			// The closest working day of the month; there are no ties.
			for _, away := range []int{0, -1, 1, -2, 2} {
				if d := day + away; d >= 1 && d <= last(t) {
					wd := time.Date(t.Year(), t.Month(), d, 0, 0, 0, 0, time.UTC).Weekday()
					if wd != time.Saturday && wd != time.Sunday {
						return t.Day() == d
					}
				}
			}
			return false
		}
	}
	days := []namedDay{{"*", "?", always}, {"?", "*", always}, {"*", "*", always}}
	for back := range 31 {
		target := func(t time.Time) int { return last(t) - back }
		days = append(days,
			namedDay{fmt.Sprintf("L-%d", back), "?", func(t time.Time) bool { return t.Day() == target(t) }},
			namedDay{fmt.Sprintf("L-%dW", back), "?", near(target)},
			namedDay{fmt.Sprintf("%dW", back+1), "?", near(func(time.Time) int { return back + 1 })})
	}
	for wd := range 7 {
		is := func(t time.Time) bool { return int(t.Weekday()) == wd }
		days = append(days, namedDay{"?", fmt.Sprintf("%dL", wd+1), func(t time.Time) bool {
			return is(t) && t.AddDate(0, 0, 7).Month() != t.Month()
		}})
		for n := 1; n <= 5; n++ {
			days = append(days, namedDay{"?", fmt.Sprintf("%d#%d", wd+1, n), func(t time.Time) bool {
				return is(t) && (t.Day()+6)/7 == n
			}})
		}
	}
	return days
}

// Every day rule fires on exactly the days of its definition, over a whole cycle
// of leap years and weekdays.
func TestDayRules(t *testing.T) {
	t.Parallel()
	for _, d := range namedDays() {
		s := mustParse(t, "0 0 12 "+d.monthDay+" * "+d.weekDay, nil)
		first := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
		end := first.AddDate(28, 0, 0)
		expected := s.Next(first.Add(-time.Second))
		var before time.Time
		for day := first; day.Before(end); day = day.AddDate(0, 0, 1) {
			if fires := day.Equal(expected); fires != d.fires(day) {
				t.Fatalf("%v: fires on %v: %v, want %v", s, day, fires, d.fires(day))
			}
			if !day.Equal(expected) {
				continue
			}
			if prev := s.Prev(day); !before.IsZero() && !prev.Equal(before) {
				t.Fatalf("%v: Prev(%v) = %v, want %v", s, day, prev, before)
			}
			before, expected = day, s.Next(day)
		}
	}
}

// Next and Prev agree with the brute-force schedule for random expressions:
//  1. around the end of a month in UTC,
//  2. around clock changes in zones that have strange ones,
//
// whether the hour field is * or not.
func TestAgainstNaive(t *testing.T) {
	t.Parallel()
	places := []struct{ zone, around string }{
		{"UTC", "2028-03-01T00:00:00Z"},
		{"UTC", "2026-12-31T12:00:00Z"},
		{"America/New_York", "2026-03-08T07:00:00Z"},
		{"America/New_York", "2026-11-01T06:00:00Z"},
		{"America/New_York", "2044-12-31T23:00:00Z"},
		{"America/Sao_Paulo", "2017-10-15T03:00:00Z"},
		{"America/Sao_Paulo", "2018-02-18T02:00:00Z"},
		{"Asia/Beirut", "2026-03-28T22:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
		{"Antarctica/Troll", "2026-10-25T01:00:00Z"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z"},
		{"Africa/Monrovia", "1972-01-07T00:44:30Z"},
	}
	for i, place := range places {
		t.Run(fmt.Sprintf("%s %s", place.zone, place.around), func(t *testing.T) {
			t.Parallel()
			const seed = 20260308
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			loc := zone(t, place.zone)
			middle := instant(t, place.around).Unix()
			from, to := middle-secondsPerDay, middle+secondsPerDay
			clock := watch(loc, from, to)
			for range 4 {
				for _, elapsed := range []bool{true, false} {
					n := randomNaive(rnd, elapsed)
					compare(t, mustParse(t, n.text, loc), n.fires(clock, from, elapsed), from, to)
				}
			}
		})
	}
}

// randomNaive returns a schedule that fires on most days, so that a window of
// two days is enough to test it.
func randomNaive(rnd *rand.Rand, elapsed bool) naive {
	n := naive{fields: [6]func(time.Time) bool{always, always, always, always, always, always}}
	second, minute, hour, day, month := "*", "*", "*", "*", "*"
	if rnd.IntN(4) > 0 {
		second, n.fields[0] = numeric(rnd, 0, 59, time.Time.Second)
	}
	if rnd.IntN(4) > 0 {
		minute, n.fields[1] = numeric(rnd, 0, 59, time.Time.Minute)
	}
	if rnd.IntN(2) == 0 {
		day, n.fields[3] = numeric(rnd, 1, 31, time.Time.Day)
	}
	if rnd.IntN(4) == 0 {
		month, n.fields[4] = numeric(rnd, 1, 12, func(t time.Time) int { return int(t.Month()) })
	}
	for !elapsed && (hour == "*" || mustField(hourField, hour) == run(0, 23)) {
		hour, n.fields[2] = numeric(rnd, 0, 23, time.Time.Hour)
	}
	n.text = strings.Join([]string{second, minute, hour, day, month, "?"}, " ")
	return n
}

// mustField returns the set of a list, or the empty set if it is invalid.
func mustField(f field, text string) set {
	p := &parser{text: text}
	return p.reader(&f, word{text, 1}).list()
}

// compare walks s in both directions between two times, inclusive.
func compare(t *testing.T, s *Schedule, fires []int64, from, to int64) {
	t.Helper()
	at := time.Unix(from, 0).Add(-time.Nanosecond)
	for i, want := range append(fires, to+1) {
		at = s.Next(at)
		if i == len(fires) {
			if !at.IsZero() && at.Unix() <= to {
				t.Fatalf("%v: fires at %v, want nothing until %v", s, at, time.Unix(to, 0).In(s.loc))
			}
			break
		}
		if at.Unix() != want {
			t.Fatalf("%v: Next is %v, want %v", s, at, time.Unix(want, 0).In(s.loc))
		}
	}
	at = time.Unix(to, 1)
	for _, want := range slices.Backward(fires) {
		if at = s.Prev(at); at.Unix() != want {
			t.Fatalf("%v: Prev is %v, want %v", s, at, time.Unix(want, 0).In(s.loc))
		}
	}
	if at = s.Prev(at); !at.IsZero() && at.Unix() >= from {
		t.Fatalf("%v: Prev finds %v, want nothing since %v", s, at, time.Unix(from, 0).In(s.loc))
	}
}

package cronexpr

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// maxTurns bounds a search. In each month the year, month and day wheels take a
// few turns before they carry. The wheels below the day match on the second day
// at the latest, since their fields allow the same times on every day.
const maxTurns = 4*12*(lastYear-firstYear+1) + 4*wheels

// FuzzParse holds for any text, zone and time:
//  1. Parse accepts the text or returns an *Error that points into it,
//  2. String parses again, to itself and to the same fires,
//  3. Next and Prev mirror each other,
//  4. Words are printable,
//  5. no search takes more than maxTurns turns.
func FuzzParse(f *testing.F) {
	for i, text := range []string{
		"0 */20 * * * ?", "0 0 12 ? * MON-FRI", "0 0 0 L-3W * ?", "0 0 0 15W NOV-FEB ? 2026-2030/2",
		"0 0 0 ? 2 6#5", "0 0 0 29 2 ?", "* * * * * *", "0 0 22-4/2 ? * FRIL", "0/70 * * * * ?",
		"*/5 9-17 13 * FRI", "0 0 */2 * 1-7", "0 0 * 29 2 ? 2096", "0 0 0 31 2 ?", "59 59 23 31 12 ? 2099",
		"@daily", "@every 1h30m", "@every 1500ms", "@at 2026-12-24T18:00:00+01:00", "TZ=", ", * * * *", "@",
	} {
		f.Add(text, uint8(i), int64(1772953200+i*86400))
	}
	zones := []*time.Location{time.UTC}
	for _, name := range []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca",
		"America/Sao_Paulo", "Antarctica/Troll", "Africa/Monrovia"} {
		zones = append(zones, zone(f, name))
	}
	f.Fuzz(func(t *testing.T, text string, place uint8, unix int64) {
		loc := zones[int(place)%len(zones)]
		at := time.Unix(unix, 0)
		s, err := Parse(text, loc)
		if err != nil {
			checkError(t, text, err)
			return
		}
		checkString(t, s, at)
		checkMirror(t, s, at)
		if words := s.Words(); words == "" || strings.ContainsFunc(words, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("words %q", words)
		}
		if c, ok := s.rule.(*cron); ok {
			checkTurns(t, c, at)
		}
	})
}

func checkError(t *testing.T, text string, err error) {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) {
		t.Fatalf("%T, want *Error: %v", err, err)
	}
	if fault.Column < 0 || fault.Column > len(text)+1 || fault.Problem == "" || fault.Want == "" {
		t.Fatalf("no help: %+v", fault)
	}
}

func checkString(t *testing.T, s *Schedule, at time.Time) {
	t.Helper()
	again, err := Parse(s.String(), s.Location())
	if err != nil {
		t.Fatalf("String does not parse: %v", err)
	}
	if again.String() != s.String() {
		t.Fatalf("String of %q is %q", s, again)
	}
	for range 5 {
		a, b := s.Next(at), again.Next(at)
		if !a.Equal(b) {
			t.Fatalf("after %v %q fires at %v and, parsed again, at %v", at, s, a, b)
		}
		at = a
	}
}

func checkMirror(t *testing.T, s *Schedule, at time.Time) {
	t.Helper()
	next, prev := s.Next(at), s.Prev(at)
	if !next.IsZero() {
		if !next.After(at) {
			t.Fatalf("%q: Next(%v) = %v", s, at, next)
		}
		if back := s.Prev(next); back.After(at) || s.Prev(next.Add(1)) != next {
			t.Fatalf("%q: Next(%v) = %v, but Prev of that = %v", s, at, next, back)
		}
	}
	if !prev.IsZero() {
		if !prev.Before(at) {
			t.Fatalf("%q: Prev(%v) = %v", s, at, prev)
		}
		if ahead := s.Next(prev); !ahead.IsZero() && ahead.Before(at) || s.Next(prev.Add(-1)) != prev {
			t.Fatalf("%q: Prev(%v) = %v, but Next of that = %v", s, at, prev, ahead)
		}
	}
}

func checkTurns(t *testing.T, c *cron, at time.Time) {
	t.Helper()
	for _, from := range []wall{firstWall, wall(at.Unix()), lastWall} {
		for _, dir := range []direction{forward, backward} {
			o := newOdometer(&c.calendar, from, dir)
			if o.run(); o.turns > maxTurns {
				t.Fatalf("a search from %d took %d turns, more than %d", from, o.turns, maxTurns)
			}
		}
	}
}

// maxTurns is close to the cost of the longest search: one for a day that no
// month has, which Parse would reject.
func TestMaxTurns(t *testing.T) {
	t.Parallel()
	c := &calendar{years: everyYear, months: run(1, 12), days: dates{}}
	for _, o := range []*odometer{newOdometer(c, firstWall, forward), newOdometer(c, lastWall, backward)} {
		if o.run() || o.turns > maxTurns || o.turns < maxTurns/2 {
			t.Errorf("the longest search took %d turns, want a little less than %d", o.turns, maxTurns)
		}
	}
}

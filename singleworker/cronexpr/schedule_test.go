package cronexpr

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestEvery(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text  string
		from  string
		fires []string
	}{
		{"@every 90s", "1970-01-01T00:00:00Z", []string{"1970-01-01T00:01:30Z", "1970-01-01T00:03:00Z"}},
		{"@every 90s", "2026-03-08T00:00:01Z", []string{"2026-03-08T00:01:30Z", "2026-03-08T00:03:00Z"}},
		{"@every 7h", "2026-03-08T00:00:00Z", []string{"2026-03-08T05:00:00Z", "2026-03-08T12:00:00Z", "2026-03-08T19:00:00Z"}},
		{"@every 1s", "1960-01-01T00:00:00Z", []string{"1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"}},
		{"@every 24h", "2099-12-29T12:00:00Z", []string{"2099-12-30T00:00:00Z", "2099-12-31T00:00:00Z"}},
		{"@every 2000000h", "1960-01-01T00:00:00Z", []string{"1970-01-01T00:00:00Z"}},
	}
	for _, tt := range tests {
		checkWalk(t, mustParse(t, tt.text, nil), tt.from, tt.fires)
	}
}

// Periods that are not whole seconds, and times between two milliseconds.
func TestEveryFractions(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "@every 1500ms", nil)
	tests := []struct{ at, next, prev time.Duration }{ // since the epoch
		{0, 1500 * time.Millisecond, -1},
		{1, 1500 * time.Millisecond, 0},
		{1500*time.Millisecond - 1, 1500 * time.Millisecond, 0},
		{1500 * time.Millisecond, 3000 * time.Millisecond, 0},
		{1500*time.Millisecond + 1, 3000 * time.Millisecond, 1500 * time.Millisecond},
	}
	epoch := time.Unix(0, 0)
	for _, tt := range tests {
		if got := s.Next(epoch.Add(tt.at)).Sub(epoch); got != tt.next {
			t.Errorf("Next(%v) = %v, want %v", tt.at, got, tt.next)
		}
		prev := s.Prev(epoch.Add(tt.at))
		if tt.prev < 0 {
			if !prev.IsZero() {
				t.Errorf("Prev(%v) = %v, want none", tt.at, prev)
			}
		} else if got := prev.Sub(epoch); got != tt.prev {
			t.Errorf("Prev(%v) = %v, want %v", tt.at, got, tt.prev)
		}
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	tokyo := zone(t, "Asia/Tokyo")
	s := mustParse(t, "@at 2026-12-24T18:00:00+01:00", tokyo)
	at := time.Date(2026, 12, 25, 2, 0, 0, 0, tokyo)
	if got := s.Next(at.Add(-1)); got != at {
		t.Errorf("Next before = %v, want %v", got, at)
	}
	if got := s.Prev(at.Add(1)); got != at {
		t.Errorf("Prev after = %v, want %v", got, at)
	}
	if got := s.Next(at); !got.IsZero() {
		t.Errorf("Next at the time itself = %v, want none", got)
	}
	if got := s.Prev(at); !got.IsZero() {
		t.Errorf("Prev at the time itself = %v, want none", got)
	}
}

// A schedule without times has not ended.
func TestManually(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 25, 2, 0, 0, 0, time.UTC)
	for _, text := range []string{"@manually", "@Manually", " @MANUALLY "} {
		s := mustParse(t, text, nil)
		if next, prev := s.Next(at), s.Prev(at); !next.IsZero() || !prev.IsZero() || !s.Manual() || s.Once() || s.Ended(at) || s.String() != "@manually" {
			t.Errorf("%q is %v: next %v, prev %v, manual %v, once %v, ended %v", text, s, next, prev, s.Manual(), s.Once(), s.Ended(at))
		}
	}
	if _, err := Parse("@manually 5s", nil); err == nil || !strings.Contains(err.Error(), "nothing after @manually") {
		t.Errorf("with an argument: %v", err)
	}
	once := mustParse(t, "@at 2026-12-24T18:00:00Z", nil)
	if !once.Once() || once.Manual() || !once.Ended(at) || once.Ended(at.Add(-24*time.Hour)) {
		t.Errorf("%v: once %v, manual %v, ended %v", once, once.Once(), once.Manual(), once.Ended(at))
	}
}

// A schedule that runs all the time has no times, and differs from one that never runs by itself.
func TestAlways(t *testing.T) {
	t.Parallel()
	s := mustParse(t, " @Always ", nil)
	at := time.Date(2026, 12, 25, 2, 0, 0, 0, time.UTC)
	if next, prev := s.Next(at), s.Prev(at); !next.IsZero() || !prev.IsZero() || !s.Always() || s.Manual() || s.Once() || s.Ended(at) || s.String() != "@always" {
		t.Errorf("it is %v: next %v, prev %v, always %v, manual %v", s, next, prev, s.Always(), s.Manual())
	}
	if s := mustParse(t, "@manually", nil); s.Always() {
		t.Error("@manually is always")
	}
}

// Next is strictly after, and Prev strictly before, a time with a fraction of a
// second.
func TestFractions(t *testing.T) {
	t.Parallel()
	fire := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	for _, text := range []string{"0 0 9 1 6 ? 2026", "0 0 * 1 6 ? 2026"} {
		s := mustParse(t, text, nil)
		if got := s.Next(fire.Add(-1)); !got.Equal(fire) {
			t.Errorf("%v: Next a nanosecond before = %v", s, got)
		}
		if got := s.Next(fire); got.Equal(fire) {
			t.Errorf("%v: Next at the fire is the fire", s)
		}
		if got := s.Prev(fire.Add(1)); !got.Equal(fire) {
			t.Errorf("%v: Prev a nanosecond after = %v", s, got)
		}
		if got := s.Prev(fire); got.Equal(fire) {
			t.Errorf("%v: Prev at the fire is the fire", s)
		}
	}
}

// Schedules that have ended or not begun are valid.
func TestPastAndFuture(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"0 0 12 * * ? 1999", "0 0 * * * ? 1999", "@at 1999-12-31T23:00:00Z"} {
		s := mustParse(t, text, nil)
		if got := s.Next(now); !got.IsZero() {
			t.Errorf("%v: Next = %v, want none", s, got)
		}
		if got := s.Prev(now); got.Year() != 1999 || got.Month() != time.December || got.Day() != 31 {
			t.Errorf("%v: Prev = %v, want the end of 1999", s, got)
		}
	}
	for _, text := range []string{"0 0 12 * * ? 2050", "0 0 * * * ? 2050", "@at 2050-01-01T00:00:00Z"} {
		s := mustParse(t, text, nil)
		if got := s.Prev(now); !got.IsZero() {
			t.Errorf("%v: Prev = %v, want none", s, got)
		}
		if got := s.Next(now); got.Year() != 2050 || got.YearDay() != 1 {
			t.Errorf("%v: Next = %v, want the start of 2050", s, got)
		}
	}
}

// A search across many clock changes finds the first or last time.
func TestFarAway(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "America/New_York", "Asia/Tokyo", "Pacific/Auckland"} {
		loc := zone(t, name)
		s := mustParse(t, "0 0 * 29 2 ? 2096", loc)
		if got, want := s.Next(time.Unix(0, 0)), time.Date(2096, 2, 29, 0, 0, 0, 0, loc); !got.Equal(want) {
			t.Errorf("%s: Next = %v, want %v", name, got, want)
		}
		s = mustParse(t, "0 0 * 29 2 ? 1972", loc)
		if got, want := s.Prev(time.Date(2099, 1, 1, 0, 0, 0, 0, loc)), time.Date(1972, 2, 29, 23, 0, 0, 0, loc); !got.Equal(want) {
			t.Errorf("%s: Prev = %v, want %v", name, got, want)
		}
	}
}

// Times far outside the years of a schedule are clamped to them.
func TestAbsurdTimes(t *testing.T) {
	t.Parallel()
	zones := []*time.Location{time.UTC, zone(t, "America/New_York"), zone(t, "Africa/Casablanca"),
		time.FixedZone("far", 1<<30), time.FixedZone("near", -1<<30)}
	early := []time.Time{{}, time.Unix(-1<<62, 0), time.Unix(-1<<40, 1), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)}
	late := []time.Time{time.Unix(1<<55, 0), time.Unix(1<<40, 1), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		time.UnixMilli(math.MaxInt64)}
	for _, text := range []string{"0 0 12 * * ?", "* * * * * ?", "0 0 * 29 2 ? 2096", "0 0 0 ? 2 6#5", "@every 1h", "@at 2026-01-01T00:00:00Z"} {
		for _, loc := range zones {
			s := mustParse(t, text, loc)
			first, last := s.Next(early[0]), s.Prev(late[0])
			if first.IsZero() || last.IsZero() || last.Before(first) {
				t.Errorf("%v in %v: fires from %v to %v", s, loc, first, last)
			}
			for i := range early {
				if a, b := s.Next(early[i]), s.Prev(early[i]); !a.Equal(first) || !b.IsZero() {
					t.Errorf("%v in %v, at %v: next %v, prev %v", s, loc, early[i], a, b)
				}
				if a, b := s.Next(late[i]), s.Prev(late[i]); !a.IsZero() || !b.Equal(last) {
					t.Errorf("%v in %v, at %v: next %v, prev %v", s, loc, late[i], a, b)
				}
			}
		}
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	if s := mustParse(t, "@daily", nil); s.Location() != time.UTC {
		t.Errorf("no location gives %v, want UTC", s.Location())
	}
	tokyo := zone(t, "Asia/Tokyo")
	at := time.Date(2026, 1, 1, 0, 30, 0, 0, zone(t, "America/New_York"))
	for _, text := range []string{"@daily", "@hourly", "@every 1h", "@at 2026-01-01T06:00:00Z"} {
		s := mustParse(t, text, tokyo)
		if s.Location() != tokyo {
			t.Errorf("%v: Location = %v", s, s.Location())
		}
		if got := s.Next(at); got.Location() != tokyo {
			t.Errorf("%v: Next is in %v, want the location of the schedule", s, got.Location())
		}
		if got := s.Prev(at.AddDate(0, 0, 1)); got.Location() != tokyo {
			t.Errorf("%v: Prev is in %v, want the location of the schedule", s, got.Location())
		}
	}
}

// Earlier results of Next make no difference, in whichever order it is asked.
func TestNextAgain(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"* * * * * ?", "*/20 * * * * ?", "0 0/30 * * * ?", "0 30 2 * * ?", "@every 7s", "@at 2026-03-29T01:00:00Z", "@manually", "0 0 3 29 3 ? 2026",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			parse := func() *Schedule {
				s, err := Parse(text, zone)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			asked, at := parse(), begin
			for range 3000 {
				switch rnd.IntN(20) {
				case 0:
					at = begin.Add(time.Duration(rnd.Int64N(int64(6 * time.Hour))))
				case 1:
					at = time.Time{}
				case 2:
					at = time.Now() // which has a monotonic time
				case 3, 4, 5:
					at = at.Add(time.Duration(rnd.Int64N(int64(2*time.Second))) - time.Second)
				case 6:
					at = asked.Prev(at)
				default:
					at = asked.Next(at)
				}
				if got, want := asked.Next(at), parse().Next(at); got != want {
					t.Fatalf("Next(%v) = %v, want %v", at, got, want)
				}
			}
		})
	}
}

package cronexpr

import (
	"testing"
	"time"
	_ "time/tzdata" // the rows must not depend on the zones of the machine
)

// Schedules around clock changes. Each row walks forward with Next; Prev must
// walk the same times back.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		about string
		zone  string
		text  string
		from  string
		fires []string
	}{
		{"back: an hour field of * goes by elapsed time", "America/New_York", "0 */20 * * * ?", "2026-11-01T00:30:00-04:00",
			[]string{"2026-11-01T00:40:00-04:00",
				"2026-11-01T01:00:00-04:00", "2026-11-01T01:20:00-04:00", "2026-11-01T01:40:00-04:00",
				"2026-11-01T01:00:00-05:00", "2026-11-01T01:20:00-05:00", "2026-11-01T01:40:00-05:00",
				"2026-11-01T02:00:00-05:00"}},
		{"back: any other fires once, at the first", "America/New_York", "0 30 1 * * ?", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"back: also when asked within the repeated hour", "America/New_York", "0 30 1 * * ?", "2026-11-01T01:10:00-05:00",
			[]string{"2026-11-02T01:30:00-05:00"}},
		{"back: a crontab text does the same", "America/New_York", "*/30 1 * * *", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:00:00-05:00"}},
		{"back: every other hour goes by the wall clock", "America/New_York", "0 0 */2 * * ?", "2026-10-31T23:00:00-04:00",
			[]string{"2026-11-01T00:00:00-04:00", "2026-11-01T02:00:00-05:00"}},
		{"back: all hours written out are a *", "America/New_York", "0 0 0-23 * * ?", "2026-11-01T00:30:00-04:00",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		{"gap: a time in it fires at the first moment after it", "America/New_York", "0 30 2 * * ?", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"gap: several times in it fire once", "America/New_York", "0 0,30 2 * * ?", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"gap: and once with the time after it", "America/New_York", "0 0 2,3 * * ?", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00", "2026-03-09T03:00:00-04:00"}},
		{"gap: 3600 times in it fire once", "America/New_York", "* * 2 * * ?", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00", "2026-03-09T02:00:01-04:00"}},
		{"gap: elapsed time does not see it", "America/New_York", "0 30 * * * ?", "2026-03-08T01:00:00-05:00",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
		{"half an hour forward, wall clock", "Australia/Lord_Howe", "0 15 2 * * ?", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"half an hour forward, elapsed", "Australia/Lord_Howe", "0 15 * * * ?", "2026-10-04T01:00:00+10:30",
			[]string{"2026-10-04T01:15:00+10:30", "2026-10-04T03:15:00+11:00"}},
		{"half an hour back, wall clock", "Australia/Lord_Howe", "0 45 1 * * ?", "2026-04-05T01:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"half an hour back, elapsed", "Australia/Lord_Howe", "0 45 * * * ?", "2026-04-05T01:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"}},
		{"two hours forward", "Antarctica/Troll", "0 30 1,2 * * ?", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T01:30:00+02:00"}},
		{"no midnight", "America/Sao_Paulo", "@daily", "2017-10-14T12:00:00-03:00",
			[]string{"2017-10-15T01:00:00-02:00", "2017-10-16T00:00:00-02:00"}},
		{"no midnight", "Asia/Beirut", "30 0 * * *", "2026-03-28T12:00:00+02:00",
			[]string{"2026-03-29T01:00:00+03:00", "2026-03-30T00:30:00+03:00"}},
		{"no midnight on the only day", "Asia/Beirut", "0 0 0 29 3 ? 2026", "2026-03-28T12:00:00+02:00",
			[]string{"2026-03-29T01:00:00+03:00"}},
		{"back at midnight: the day before is long", "America/Sao_Paulo", "0 30 23 * * ?", "2018-02-17T12:00:00-02:00",
			[]string{"2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"}},
		{"back at midnight: midnight comes once", "America/Sao_Paulo", "@daily", "2018-02-17T12:00:00-02:00",
			[]string{"2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"}},
		{"back at midnight, elapsed", "America/Sao_Paulo", "@hourly", "2018-02-17T22:30:00-02:00",
			[]string{"2018-02-17T23:00:00-02:00", "2018-02-17T23:00:00-03:00", "2018-02-18T00:00:00-03:00"}},
		{"back at midnight, elapsed, the last times of the schedule", "America/Sao_Paulo", "0 30 * 17 2 ? 2018", "2018-02-17T23:20:00-02:00",
			[]string{"2018-02-17T23:30:00-02:00", "2018-02-17T23:30:00-03:00"}},
		{"back at midnight, elapsed, the last times of the year", "America/Sao_Paulo", "0 30 * 17 2 ?", "2018-02-17T23:20:00-02:00",
			[]string{"2018-02-17T23:30:00-02:00", "2018-02-17T23:30:00-03:00", "2019-02-17T00:30:00-03:00"}},
		{"back to midnight, elapsed, the first times of the schedule", "Atlantic/Azores", "0 30 * 25 10 ? 2026", "2026-10-25T00:20:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T00:30:00-01:00", "2026-10-25T01:30:00-01:00"}},
		{"back to midnight, elapsed, the first times of the year", "Atlantic/Azores", "0 30 * 25 10 ?", "2025-10-25T23:00:00Z",
			[]string{"2025-10-25T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00-01:00", "2026-10-25T01:30:00-01:00"}},
		{"a skipped day", "Pacific/Apia", "0 0 12 * * ?", "2011-12-29T00:00:00-10:00",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}},
		{"a skipped day, when it was the only one", "Pacific/Apia", "0 0 12 30 12 ?", "2011-01-01T00:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2012-12-30T12:00:00+14:00"}},
		{"a skipped day, elapsed", "Pacific/Apia", "@hourly", "2011-12-29T22:30:00-10:00",
			[]string{"2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T01:00:00+14:00"}},
		{"a gap of 44:30 minutes, wall clock", "Africa/Monrovia", "0 30 0 * * ?", "1972-01-06T22:44:30Z",
			[]string{"1972-01-07T00:44:30Z", "1972-01-08T00:30:00Z"}},
		{"a gap of 44:30 minutes, elapsed", "Africa/Monrovia", "0 */15 * * * ?", "1972-01-07T00:44:29Z",
			[]string{"1972-01-07T00:45:00Z", "1972-01-07T01:00:00Z"}},
		{"31 December of a leap year after the last listed change", "America/New_York", "@hourly", "2044-12-31T22:30:00-05:00",
			[]string{"2044-12-31T23:00:00-05:00", "2045-01-01T00:00:00-05:00"}},
		{"the same by the wall clock", "America/New_York", "0 30 12 * * ?", "2044-12-30T13:00:00-05:00",
			[]string{"2044-12-31T12:30:00-05:00", "2045-01-01T12:30:00-05:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.about, func(t *testing.T) {
			t.Parallel()
			checkWalk(t, mustParse(t, tt.text, zone(t, tt.zone)), tt.from, tt.fires)
		})
	}
}

// checkWalk walks s forward with Next and back with Prev.
func checkWalk(t *testing.T, s *Schedule, from string, fires []string) {
	t.Helper()
	start := instant(t, from)
	at := start
	for _, want := range fires {
		next := s.Next(at)
		if got := next.Format(time.RFC3339); got != want {
			t.Fatalf("%v: Next(%v) = %s, want %s", s, at, got, want)
		}
		if prev := s.Prev(next); at != start && !prev.Equal(at) {
			t.Fatalf("%v: Prev(%v) = %v, want %v", s, next, prev, at)
		} else if prev.After(at) {
			t.Fatalf("%v: Prev(%v) = %v, which Next missed", s, next, prev)
		}
		at = next
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// The spans of a zone are contiguous. Every search relies on that.
func TestSpans(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "America/New_York", "Africa/Casablanca", "Australia/Lord_Howe",
		"Europe/Dublin", "America/Nuuk", "Asia/Gaza", "Pacific/Apia"} {
		loc := zone(t, name)
		spans := 0
		for at := int64(firstWall); at <= int64(lastWall); spans++ {
			sp := spanAt(loc, at)
			if at < sp.start || at >= sp.end {
				t.Fatalf("%s: the span at %d is %+v", name, at, sp)
			}
			for _, inside := range []int64{at, sp.end - 1} {
				if _, offset := time.Unix(inside, 0).In(loc).Zone(); int64(offset) != sp.offset {
					t.Fatalf("%s: the offset at %d is %d, outside of %+v", name, inside, offset, sp)
				}
			}
			if sp.end > int64(lastWall) {
				break
			}
			at = sp.end
		}
		if most := 4 * (lastYear - firstYear + 1); spans > most {
			t.Errorf("%s: %d spans, want at most %d", name, spans, most)
		}
	}
}

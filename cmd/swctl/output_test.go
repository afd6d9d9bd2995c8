package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestTimesThatJSONHasNoFormFor(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Time{{}, time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := utc(when); got != nil {
			t.Errorf("%v: %v, want null", when, got)
		}
	}
	if got := utc(testNow.In(time.FixedZone("east", 3600))); got == nil || *got != testNow.UTC() {
		t.Errorf("%v, want %v", got, testNow.UTC())
	}
}

// On the days when clocks change.
func TestNextGoldenDST(t *testing.T) {
	t.Parallel()
	newYork := []string{"--tz", "America/New_York", "-n", "6"}
	var texts []string
	for _, c := range []struct{ now, cron string }{
		{"2026-03-07T12:00:00Z", "0 30 2 * * ?"},
		{"2026-11-01T04:30:00Z", "0 */20 * * * ?"},
		{"2026-10-31T12:00:00Z", "30 1 * * *"},
	} {
		h := newHarness(t)
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		h.Now = func() time.Time { return now }
		h.vars = nil // and no server type is needed
		texts = append(texts, h.transcript(append([]string{"next", "--cron", c.cron}, newYork...)...))
		if len(h.fake.calls) > 0 {
			t.Errorf("next --cron called the server: %q", h.fake.calls)
		}
	}
	golden(t, "next-dst", strings.Join(texts, "\n"))
}

package commands

import (
	"strings"
	"testing"
	"time"
)

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

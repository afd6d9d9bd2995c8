package ticks

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

func TestSoon(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		schedule string
		at       time.Duration // after 12:00:00
		want     bool
	}{
		{"0 * * * * ?", 30 * time.Second, false},
		{"0 * * * * ?", 57900 * time.Millisecond, false},
		{"0 * * * * ?", 58100 * time.Millisecond, true}, // 2 s
		{"0 * * * * ?", time.Minute, true},
		{"0 * * * * ?", time.Minute + 99*time.Millisecond, true}, // it may not be claimed yet
		{"0 * * * * ?", time.Minute + 101*time.Millisecond, false},
		{"* * * * * ?", 1500 * time.Millisecond, false},
		{"* * * * * ?", 1740 * time.Millisecond, false},
		{"* * * * * ?", 1760 * time.Millisecond, true}, // a quarter of a second
		{"*/4 * * * * ?", 2900 * time.Millisecond, false},
		{"*/4 * * * * ?", 3100 * time.Millisecond, true},
		{"@at 2026-11-21T12:00:10Z", 7 * time.Second, false},
		{"@at 2026-11-21T12:00:10Z", 9 * time.Second, true},
		{"@at 2026-11-21T12:00:10Z", 11 * time.Second, false}, // it never comes again
	} {
		schedule, err := cronexpr.Parse(tt.schedule, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		job := Job{Schedule: schedule, Since: start.Add(-time.Hour), Policy: &Policy{}}
		if got := Soon(job, start.Add(tt.at)); got != tt.want {
			t.Errorf("%s at %v: %v, want %v", tt.schedule, tt.at, got, tt.want)
		}
	}
}

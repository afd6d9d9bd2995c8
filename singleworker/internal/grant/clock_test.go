package grant

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// A lease must never last longer than others believe: of two clocks the faster counts.
func TestProgress(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for what, row := range map[string]struct{ mono, wall, want time.Duration }{
		"both clocks run evenly":            {3 * s, 3 * s, 3 * s},
		"nothing happened":                  {0, 0, 0},
		"the machine was suspended":         {1 * s, 3600 * s, 3600 * s},
		"the wall clock was set forward":    {1 * s, 61 * s, 61 * s},
		"the wall clock was set back":       {1 * s, -3600 * s, 1 * s},
		"both went back, which cannot be":   {-1 * s, -1 * s, 0},
		"the wall clock is slewed a trifle": {1 * s, 1*s - 1, 1 * s},
	} {
		if got := progress(row.mono, row.wall); got != row.want {
			t.Errorf("%s: progress(%v, %v) = %v, want %v", what, row.mono, row.wall, got, row.want)
		}
	}
}

func TestClockBeginsAtZeroAndRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // before it was started
		clock := NewClock()
		var total time.Duration
		for _, step := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour} {
			time.Sleep(step)
			total += step
			if got, want := clock.Now(), (lease.Instant{Mono: total, Elapsed: total}); got != want {
				t.Errorf("after %v: %+v, want %+v", step, got, want)
			}
		}
	})
}

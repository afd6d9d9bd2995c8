package zkdev

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestSteadyClock: the clock of a server that shares the machine with its clients. A time with a
// monotonic reading can be set only by the machine, so the test moves the time that was shown
// instead.
func TestSteadyClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := &steadyClock{logger: slog.New(slog.DiscardHandler)}
			begin := time.Now()
			if shown := c.at(begin); !shown.Equal(begin) {
				t.Errorf("at first it shows %v, want %v", shown, begin)
			}
			time.Sleep(time.Second)
			c.shown = c.shown.Add(-ahead) // as if the machine had leaped
			c.last = c.shown
			for range 9 {
				c.at(time.Now())
				time.Sleep(time.Minute)
			}
			if off := time.Now().Round(0).Sub(c.at(time.Now())); off != ahead {
				t.Errorf("after 9 minutes it is %v behind, want %v", off, ahead)
			}
			time.Sleep(time.Minute)
			if off := time.Now().Round(0).Sub(c.at(time.Now())); ahead > 0 && off != 0 || ahead < 0 && off >= 0 {
				t.Errorf("after 10 minutes it is %v behind", off)
			}
			before := c.last
			if now := c.at(time.Now()); now.Before(before) {
				t.Errorf("it goes back from %v to %v", before, now)
			}
		})
	}
}

// TestClockOfARestart: no transaction is dated before the last one of the server's former life.
func TestClockOfARestart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &steadyClock{logger: slog.New(slog.DiscardHandler)}
	later := now.Add(time.Hour)
	c.notBefore(later)
	if shown := c.at(now); shown.Before(later) {
		t.Errorf("it shows %v, before %v", shown, later)
	}
}

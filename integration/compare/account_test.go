package compare

import (
	"testing"
	"time"
)

// Of five ticks of one job, one is run twice, one late, and one never; of another job, nothing is ever run.
func TestAccount(t *testing.T) {
	from := time.Unix(1000, 0)
	at := func(tick int, late time.Duration) run {
		due := from.Add(time.Duration(tick) * time.Second)
		return run{"a", due, due.Add(late)}
	}
	const usual = 10 * time.Millisecond
	runs := []run{at(-1, usual), at(0, usual), at(1, usual), at(1, 2*usual), at(3, usual), at(4, 300*time.Millisecond), at(5, usual)}
	w, to := work{jobs: 1, period: time.Second}, from.Add(5*time.Second)
	got := settle(runs, w, []string{"a"}, from, to)
	if got.ticks != 5 || got.never != 1 || got.twice != 1 || got.percentile(50) != usual || got.percentile(100) != 300*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if got := settle(runs, w, []string{"a", "b"}, from, to); got.ticks != 10 || got.never != 6 {
		t.Errorf("with a job that never runs: %+v", got)
	}
	// From the second run of tick 1 to tick 3, at 1.02 and 3.01 s.
	if got := pause(runs, []string{"a"}, from, to); got != 1990*time.Millisecond {
		t.Errorf("longest pause %v", got)
	}
	// After the last run, at 5.01 s, nothing has happened.
	if got := pause(runs, []string{"a"}, from.Add(5*time.Second), from.Add(9*time.Second)); got != 3990*time.Millisecond {
		t.Errorf("longest pause at the end %v", got)
	}
}

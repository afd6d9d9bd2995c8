package compare

import (
	"testing"
	"time"
)

// Of five ticks of one job, one is run twice, one late, and one never; of another job, nothing is
// ever run.
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

// Of three jobs, a had begun a run when its process was killed. b is run a second later than it
// should be, and its second tick never. a and c are run twice for one tick.
func TestToll(t *testing.T) {
	from := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return from.Add(d) }
	runs := []run{
		{"a", at(0), at(0)}, {"a", at(0), at(10 * time.Millisecond)}, {"b", at(0), at(0)}, {"c", at(0), at(0)}, {"c", at(time.Second), at(time.Second)},
		{"c", at(time.Second), at(1100 * time.Millisecond)}, {"b", at(2 * time.Second), at(2500 * time.Millisecond)},
		{"c", at(2 * time.Second), at(2600 * time.Millisecond)},
	}
	killed := at(900 * time.Millisecond)
	got := tollOf(runs, []string{"a", "b", "c"}, map[string]time.Time{"a": at(time.Second)}, from, killed, killed, at(3*time.Second))
	if want := (toll{begun: 1, early: 1, repeated: 1, lost: 1, twice: 1, ticks: 6, pause: 2500 * time.Millisecond}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := tollOf(runs, []string{"a", "b", "c"}, map[string]time.Time{"a": at(0)}, from, killed, killed, at(3*time.Second)); got.early != 0 {
		t.Errorf("a run of a tick that had come is early: %+v", got)
	}
	if got := got.plus(got); got != (toll{begun: 2, early: 2, repeated: 2, lost: 2, twice: 2, ticks: 12, pause: 2500 * time.Millisecond}) {
		t.Errorf("twice: %+v", got)
	}
}

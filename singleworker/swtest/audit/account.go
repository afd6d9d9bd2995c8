package audit

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// Every yields the times after a time and up to another one that are multiples of a period, counted
// from the Unix epoch.
func Every(period time.Duration, after, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		since := time.Duration(after.UnixNano())
		for t := after.Add(period - since%period); !t.After(until) && yield(t); {
			t = t.Add(period)
		}
	}
}

// Missing returns the ticks without a run. It ignores the runs' jobs.
func Missing(runs []Run, ticks iter.Seq[time.Time]) []time.Time {
	ran := make(map[int64]bool)
	for _, r := range runs {
		ran[r.Tick.UnixMilli()] = true
	}
	var missing []time.Time
	for tick := range ticks {
		if !ran[tick.UnixMilli()] {
			missing = append(missing, tick)
		}
	}
	return missing
}

// Fate is the outcome of one tick according to the records.
type Fate struct {
	Rows     int   // of ticks that were not run, how many it is in
	Attempts []int // the numbers of the runs that have ended, in the order of their ends
	NotBegun int   // how many runs were claimed and not begun, which are no attempts
	Open     bool  // a run of it is in progress
}

// Add takes in a run that has ended.
func (f *Fate) Add(attempt int, notBegun bool) {
	if notBegun {
		f.NotBegun++
	} else {
		f.Attempts = append(f.Attempts, attempt)
	}
}

// Check returns an error unless the tick has one outcome: one row, or runs with increasing
// attempts.
func (f Fate) Check() error {
	switch ran := len(f.Attempts) > 0 || f.NotBegun > 0 || f.Open; {
	case f.Rows == 0 && !ran:
		return errors.New("is not accounted for")
	case f.Rows > 1 || f.Rows == 1 && ran:
		return fmt.Errorf("is in %d rows and has attempts %v, open: %v", f.Rows, f.Attempts, f.Open)
	}
	for k := 1; k < len(f.Attempts); k++ {
		if f.Attempts[k] <= f.Attempts[k-1] {
			return fmt.Errorf("has attempt %d after attempt %d", f.Attempts[k], f.Attempts[k-1])
		}
	}
	return nil
}

// Entry is one entry of a history: a run of a tick, or a row of ticks that were not run.
type Entry struct {
	Tick    time.Time
	Last    time.Time // of a row, its last tick; zero for a run
	Count   int       // of a row, how many ticks it says it has
	Attempt int       // of a run, from 1; 0 for a row
	// NotBegun says that the run was claimed and not begun: the next one is the same attempt.
	NotBegun bool
}

// Account checks a history in the order in which it was written. It returns an error unless each
// tick, from the first to the last of which the history speaks, is accounted for as [Fate.Check]
// wants, and each row has as many ticks as it says. Ticks are a period apart.
func Account(history []Entry, period time.Duration) error {
	fates := make(map[time.Time]*Fate)
	of := func(tick time.Time) *Fate {
		tick = tick.UTC()
		if fates[tick] == nil {
			fates[tick] = &Fate{}
		}
		return fates[tick]
	}
	for _, e := range history {
		if e.Attempt > 0 {
			of(e.Tick).Add(e.Attempt, e.NotBegun)
			continue
		}
		n := 0
		for tick := e.Tick; !tick.After(e.Last); tick = tick.Add(period) {
			of(tick).Rows++
			n++
		}
		if n != e.Count {
			return fmt.Errorf("a row says %d ticks from %s to %s, there are %d", e.Count, clock(e.Tick), clock(e.Last), n)
		}
	}
	ticks := slices.SortedFunc(maps.Keys(fates), time.Time.Compare)
	if len(ticks) == 0 {
		return errors.New("nothing is accounted for")
	}
	for k, tick := range ticks {
		if k > 0 && tick.Sub(ticks[k-1]) != period {
			return fmt.Errorf("nothing is said of the %v after %s", tick.Sub(ticks[k-1]), clock(ticks[k-1]))
		}
		if err := fates[tick].Check(); err != nil {
			return fmt.Errorf("tick %s %w", clock(tick), err)
		}
	}
	return nil
}

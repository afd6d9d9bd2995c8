package compare

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// run is a line of the ledger.
type run struct {
	job         string
	tick, begun time.Time
}

func (r run) late() time.Duration { return r.begun.Sub(r.tick) }

// readLedger returns the runs so far, in the order in which they began.
func readLedger(t *testing.T, path string) (runs []run) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var job string
		var tick, begun int64
		if _, err := fmt.Sscanf(line, "%s %d %d\n", &job, &tick, &begun); err != nil {
			t.Fatalf("ledger: %q: %v", line, err)
		}
		runs = append(runs, run{job, time.UnixMilli(tick).Truncate(time.Second), time.UnixMilli(begun)})
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Or(a.begun.Compare(b.begun), strings.Compare(a.job, b.job)) })
	return runs
}

// account counts the ticks of a time by their fate.
type account struct {
	ticks, never, twice int
	late                []time.Duration // of first runs, the least first
}

// settle accounts for the ticks of the work from a time until before another.
func settle(runs []run, w work, jobs []string, from, to time.Time) (a account) {
	type tick struct {
		job string
		at  int64
	}
	times := make(map[tick]int)
	for _, r := range runs {
		if r.tick.Before(from) || !r.tick.Before(to) {
			continue
		}
		one := tick{r.job, r.tick.Unix()}
		if times[one]++; times[one] > 1 {
			a.twice++
			continue
		}
		a.late = append(a.late, r.late())
	}
	for _, job := range jobs {
		for at := from; at.Before(to); at = at.Add(w.period) {
			a.ticks++
			if times[tick{job, at.Unix()}] == 0 {
				a.never++
			}
		}
	}
	slices.Sort(a.late)
	return a
}

// percentile is of the lateness.
func (a account) percentile(p int) time.Duration {
	if len(a.late) == 0 {
		return 0
	}
	return a.late[(len(a.late)-1)*p/100]
}

// pause is the longest time between two begins of any job that ended after from, or had not ended
// at to.
func pause(runs []run, jobs []string, from, to time.Time) (longest time.Duration) {
	last := make(map[string]time.Time)
	for _, r := range runs {
		if r.begun.After(to) {
			break
		}
		if before, ok := last[r.job]; ok && r.begun.After(from) {
			longest = max(longest, r.begun.Sub(before))
		}
		last[r.job] = r.begun
	}
	for _, job := range jobs {
		longest = max(longest, to.Sub(last[job]))
	}
	return longest
}

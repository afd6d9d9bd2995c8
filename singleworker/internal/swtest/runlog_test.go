package swtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
)

// readInto has a reader of the run log read all histories of the group.
func readInto(t *testing.T, c *swtest.Cluster, store runlog.Store) {
	t.Helper()
	operate(t, c, func(a *admin.Client) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return runlog.Run(ctx, a, store, runlog.Options{Group: "group"})
	})
}

// logged are the entries of a slot in the log, or of all, newest first.
func logged(t *testing.T, store runlog.Store, slot string) (all []runlog.Entry) {
	t.Helper()
	for e, err := range store.Entries(t.Context(), runlog.Query{Group: "group", Slot: slot}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func openLog(t *testing.T) runlog.Store {
	t.Helper()
	store, err := jsonl.Open(t.TempDir(), jsonl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// A history that is full has forgotten nothing yet. With one more run, there is a hole of a page.
func TestRunLogOfAFullHistory(t *testing.T) {
	t.Parallel()
	ofFullHistories(t, fullHistory)
}

func fullHistory(t *testing.T, c *swtest.Cluster, runs int) {
	t.Helper()
	store := openLog(t)
	older(t, c)
	readInto(t, c, store) // a log that has begun
	ranTimes(t, c, runs, nil)
	readInto(t, c, store)
	kinds := make(map[runlog.Kind]int)
	for _, e := range logged(t, store, "job0") {
		kinds[e.Kind]++
		if e.Kind == runlog.Hole && e.Number != page {
			t.Errorf("the log continues after entry %d: %s", e.Number, e.Error)
		}
	}
	if forgotten := runs - fullHistories; kinds[runlog.Ran] != runs-forgotten*page || kinds[runlog.Hole] != forgotten {
		t.Errorf("the log has %v", kinds)
	}
}

// Ticks that nobody ran are recorded in a row that a backup from before does not have. After the
// restore, and another outage, they are recorded once more, in a row that begins earlier. The log
// has each tick in one row, and all runs. Of a restore that numbers tell of, it also has that jobs
// may have come and gone unseen.
func TestRunLogAfterARestore(t *testing.T) {
	t.Parallel()
	for by, unseen := range map[string]int{"a new leader": 0, "swctl serve restore": 1} {
		t.Run(by, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				runLogAfterARestore(t, c, unseen)
			})
		})
	}
}

func runLogAfterARestore(t *testing.T, c *swtest.Cluster, unseen int) {
	t.Helper()
	store := openLog(t)
	older(t, c)
	readInto(t, c, store) // a log that has begun
	ranTimes(t, c, 2, nil)
	backup := c.Server.Snapshot()
	ranTimes(t, c, 4, nil)
	time.Sleep(time.Minute)
	ranTimes(t, c, 6, nil)
	readInto(t, c, store)
	holes := func() (n int) {
		for _, e := range logged(t, store, "") {
			if e.Kind == runlog.Hole && e.Slot == "" {
				n++
			}
		}
		return n
	}
	before := holes()
	replace := c.Server.Restore
	if unseen > 0 {
		replace = c.Server.Renew
	}
	if err := replace(backup); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	ranTimes(t, c, 8, nil)
	readInto(t, c, store)
	kinds := make(map[runlog.Kind]int)
	ticks := make(map[time.Time]int)
	if n := holes() - before; n != unseen {
		t.Errorf("%d holes about jobs, want %d", n, unseen)
	}
	for _, e := range logged(t, store, "job0") {
		kinds[e.Kind]++
		for tick := e.Tick; e.Kind == runlog.NotRun && !tick.After(e.To); tick = tick.Add(10 * time.Second) {
			ticks[tick]++
		}
	}
	for tick, rows := range ticks {
		if rows > 1 {
			t.Errorf("%d rows account for %v", rows, tick)
		}
	}
	if kinds[runlog.Ran] != 8 || kinds[runlog.NotRun] != 1 || kinds[runlog.Hole] != 1 {
		t.Errorf("the log has %v; want 8 runs, the row of the second outage, and a hole", kinds)
	}
}

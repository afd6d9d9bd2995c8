package swtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
)

// knownFaults lists faults whose cause is not mended yet. A fault goes from the list with its mend. All
// of them wait for numbers in a history: each entry keeps its number, and the history says which
// number it has forgotten last, and in which write an entry has changed last.
var knownFaults = []struct {
	name  string
	wrong string // with what would mend it
	there func(t *testing.T, c *swtest.Cluster) bool
}{
	{
		"a hole in a run log that lacks nothing",
		"The log takes a history of 20 entries for one that has forgotten some. The number of the last forgotten one would tell.",
		func(t *testing.T, c *swtest.Cluster) bool {
			t.Helper()
			store, err := jsonl.Open(t.TempDir(), jsonl.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			older(t, c)
			readInto(t, c, store) // a log that has begun
			ranTimes(t, c, zkrec.MaxHistory, nil)
			readInto(t, c, store)
			kinds := make(map[runlog.Kind]int)
			for e, err := range store.Entries(t.Context(), runlog.Query{Group: "group"}) {
				if err != nil {
					t.Fatal(err)
				}
				kinds[e.Kind]++
			}
			if kinds[runlog.Ran] != zkrec.MaxHistory {
				t.Errorf("the log has %v", kinds)
			}
			return kinds[runlog.Hole] > 0
		},
	},
	{
		"a gap in the events of a job whose runs are all told",
		"A Watch that resumes takes a history of 20 entries for one that has forgotten some. The number of the last forgotten one would tell.",
		func(t *testing.T, c *swtest.Cluster) bool {
			t.Helper()
			older(t, c)
			cursor := eventsSince(t, c, 0)[0].Cursor
			ranTimes(t, c, zkrec.MaxHistory, nil)
			ended, gap := 0, false
			for _, ev := range eventsSince(t, c, cursor) {
				if ev.Kind == admin.EventRunEnded {
					ended++
				}
				gap = gap || ev.Kind == admin.EventGap && ev.Gap.What == admin.GapRuns
			}
			if ended != zkrec.MaxHistory {
				t.Errorf("%d runs were told", ended)
			}
			return gap
		},
	},
	{
		"events that are told with a later time than theirs",
		"A Watch that resumes gives all runs of a history the time of its last write. A number of the write that added each would tell " +
			"them apart.",
		func(t *testing.T, c *swtest.Cluster) (wrong bool) {
			t.Helper()
			older(t, c)
			cursor := eventsSince(t, c, 0)[0].Cursor
			ranTimes(t, c, 3, nil)
			for _, ev := range eventsSince(t, c, cursor) {
				wrong = wrong || ev.Kind == admin.EventRunEnded && ev.At.Sub(ev.Entry.Ended) > 5*time.Second
			}
			return wrong
		},
	},
	{
		"a streak of failures that stops at 20",
		"The history has no more entries, and nothing says \"at least\". The number of the last forgotten one would tell that there were more.",
		func(t *testing.T, c *swtest.Cluster) bool {
			t.Helper()
			ranTimes(t, c, zkrec.MaxHistory+5, errors.New("no route"))
			text := words.Failing(status(t, c, "job0"), time.Now())
			return strings.Contains(text, "failed 20 times in a row") && !strings.Contains(text, "at least")
		},
	},
	{
		"the late result of a run that is not told",
		"A Watch that resumes does not see that the history was written and the tick record was not. The number of the last write would tell.",
		lateResultIsNotTold,
	},
	{
		"ticks that two rows of a run log account for, after a restore",
		"The log does not know which of its rows ZooKeeper has forgotten, and records once more. The numbers of entries would tell: rows with " +
			"higher ones than the restored history has would go.",
		rowsOverlapAfterARestore,
	},
}

// TestKnownFaultsAreThere fails if one of the faults is gone. Its mend takes it from the list, and
// brings a test for it.
func TestKnownFaultsAreThere(t *testing.T) {
	t.Parallel()
	for _, fault := range knownFaults {
		t.Run(fault.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				if !fault.there(t, c) && !t.Failed() {
					t.Errorf("This fault is gone. Take it from the list. It was: %s", fault.wrong)
				}
			})
		})
	}
}

// ranTimes has job0 run so many times, every ten seconds, with that result, and stops its instance.
func ranTimes(t *testing.T, c *swtest.Cluster, times int, result error) {
	t.Helper()
	i := c.Start("i0", sharing(t, c, 1, "*/10 * * * * ?", func(context.Context, *singleworker.Run) error { return result }))
	for len(c.Runs()) < times {
		time.Sleep(time.Second)
	}
	time.Sleep(time.Second) // the last result is written
	if err := i.Stop(); err != nil || len(c.Runs()) != times {
		t.Fatalf("%d runs, %v", len(c.Runs()), err)
	}
}

// older submits a job that never runs, so that the group has a past.
func older(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	if err := c.Submit(t.Context(), singleworker.Job{Name: "older", Schedule: "@manually"}); err != nil {
		t.Fatal(err)
	}
}

// readInto has a reader of the run log read all histories of the group.
func readInto(t *testing.T, c *swtest.Cluster, store runlog.Store) {
	t.Helper()
	operate(t, c, func(a *admin.Client) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return runlog.Run(ctx, a, store, runlog.Options{Group: "group"})
	})
}

// eventsSince are the events that a Watch tells from a cursor to the present. The last one says that
// it watches.
func eventsSince(t *testing.T, c *swtest.Cluster, cursor int64) (events []admin.Event) {
	t.Helper()
	operate(t, c, func(a *admin.Client) error {
		for ev, err := range a.Watch(t.Context(), admin.WatchOptions{Since: cursor}) {
			if err != nil {
				return err
			}
			if events = append(events, ev); ev.Kind == admin.EventWatching {
				break
			}
		}
		return nil
	})
	return events
}

// lateResultIsNotTold has an owner cut off in mid-run, whose handler does not mind. Its heir records
// the run as lost, which is told. Then the owner is back, and writes the result.
func lateResultIsNotTold(t *testing.T, c *swtest.Cluster) bool {
	t.Helper()
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": func(context.Context, *singleworker.Run) error {
		time.Sleep(2 * time.Minute)
		return nil
	}}}
	rare := singleworker.Job{Name: "job0", Schedule: "0 0 * * * ?", Interrupted: job.InterruptedSkip}
	if err := c.Submit(t.Context(), rare); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*swtest.Instance{"i0": c.Start("i0", setup), "i1": c.Start("i1", setup)}
	time.Sleep(time.Hour + 10*time.Second - time.Since(c.Begun()))
	owner := byName[c.Owners()["job0"]]
	owner.Partition()
	time.Sleep(time.Minute)
	if runs := history(t, c, "job0"); len(runs) != 1 || runs[0].State != admin.RunLost {
		t.Fatalf("the run is not lost: %+v", runs)
	}
	cursor := eventsSince(t, c, 0)[0].Cursor
	owner.Heal()
	time.Sleep(2 * time.Minute)
	if runs := history(t, c, "job0"); len(runs) != 1 || runs[0].State != admin.RunOK {
		t.Fatalf("no late result: %+v", runs)
	}
	for _, ev := range eventsSince(t, c, cursor) {
		if ev.Kind == admin.EventRunEnded && ev.Entry.State == admin.RunOK {
			return false
		}
	}
	return true
}

// rowsOverlapAfterARestore has ticks that nobody ran recorded, in a row that a backup from before does not have. After the restore, and
// another outage, they are recorded once more, in a row that begins earlier.
func rowsOverlapAfterARestore(t *testing.T, c *swtest.Cluster) bool {
	t.Helper()
	store, err := jsonl.Open(t.TempDir(), jsonl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	older(t, c)
	readInto(t, c, store) // a log that has begun
	ranTimes(t, c, 2, nil)
	backup := c.Server.Snapshot()
	ranTimes(t, c, 4, nil)
	time.Sleep(time.Minute)
	ranTimes(t, c, 6, nil)
	readInto(t, c, store)
	if err := c.Server.Restore(backup); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	ranTimes(t, c, 8, nil)
	readInto(t, c, store)
	var rows []runlog.Entry
	for e, err := range store.Entries(t.Context(), runlog.Query{Group: "group"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == runlog.NotRun {
			rows = append(rows, e)
		}
	}
	if len(rows) != 2 {
		t.Fatalf("the log has the rows %+v, want one of each outage", rows)
	}
	later, former := rows[0], rows[1] // the newest comes first
	return later.Key != former.Key && !later.Tick.After(former.To) && !former.Tick.After(later.To)
}

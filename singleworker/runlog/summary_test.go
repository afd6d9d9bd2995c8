package runlog_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	run := func(slot string, state history.State, minute, late, took int) runlog.Entry {
		began := at(minute).Add(time.Duration(late) * time.Millisecond)
		ended := began.Add(time.Duration(took) * time.Millisecond)
		return runlog.Entry{Slot: slot, Job: slot, Kind: runlog.Ran, At: at(minute), Entry: history.Entry{Run: history.Run{
			State: state, Tick: at(minute), Attempt: 1, Started: began, Ended: ended, Error: string(state),
		}}}
	}
	retry := run("a", history.StateFailed, 7, 0, 1)
	retry.Attempt = 2
	missed := runlog.Entry{Slot: "a", Kind: runlog.NotRun, Entry: history.Entry{Run: history.Run{State: history.StateMissed}, Count: 3}}
	skipped := runlog.Entry{Slot: "a", Kind: runlog.NotRun, Entry: history.Entry{Run: history.Run{State: history.StateSkipped}, Count: 4}}
	late := run("c", history.StateFailed, 1, 0, 5) // its instance had been cut off, and another attempt has succeeded
	newestFirst := []runlog.Entry{
		late, run("c", history.StateOK, 2, 1, 5),
		run("a", history.StateInterrupted, 9, 5, 5), run("a", history.StateLost, 8, 6, 5), retry, {Slot: "a", Kind: runlog.Hole}, {Kind: runlog.Hole},
		run("a", history.StateOK, 6, 10, 100), missed, skipped, run("a", history.StateFailed, 5, 1, 9), {Slot: "a", Kind: runlog.Gone},
		run("a", history.StateOK, 4, 20, 300), run("a", history.StateOK, 3, 30, 200), run("b", history.StateTimedOut, 2, 1, 1),
	}
	got, err := runlog.Summarize(func(yield func(runlog.Entry, error) bool) {
		for _, e := range newestFirst {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	want := runlog.Summary{
		Slot: "a", Job: "a", LastSuccess: at(6), LastFailure: at(8), LastError: "lost", Streak: 2, Runs: 7, OK: 3, Failed: 3,
		Skipped: 4, Missed: 3, Holes: 1, Duration: runlog.Spread{Count: 3, P50: 200, P95: 300, P99: 300, Max: 300},
		Lateness: runlog.Spread{Count: 6, P50: 6, P95: 30, P99: 30, Max: 30},
	}
	if got[0] != want {
		t.Errorf("got\n%+v\nwant\n%+v", got[0], want)
	}
	if c := got[2]; c.Streak != 0 || c.Failed != 1 {
		t.Errorf("a failure that came late, of a run before the last: %+v", c)
	}
	if b := got[1]; b.Streak != 1 || !b.LastSuccess.IsZero() || b.Duration != (runlog.Spread{}) {
		t.Errorf("%+v", b)
	}
}

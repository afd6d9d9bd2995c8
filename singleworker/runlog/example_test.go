package runlog_test

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// A summary of each job's log. The entries usually come from Store.Entries.
func ExampleSummarize() {
	entries := func(yield func(runlog.Entry, error) bool) {
		for _, state := range []history.State{history.StateFailed, history.StateFailed, history.StateOK} { // newest first
			run := history.Run{State: state, Ended: time.Now(), Error: "no route to host"}
			if !yield(runlog.Entry{Slot: "report", Kind: runlog.Ran, At: run.Ended, Entry: history.Entry{Run: run}}, nil) {
				return
			}
		}
	}
	sums, err := runlog.Summarize(entries)
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range sums {
		fmt.Println(s.Slot, "has failed", s.Streak, "times in a row:", s.LastError)
	}
	// Output: report has failed 2 times in a row: no route to host
}

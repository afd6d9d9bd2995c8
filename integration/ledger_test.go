package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// The events in a ledger.
const (
	runStart = "start" // the handler was called
	runEnd   = "end"   // it returns
	owned    = "owned"

	beforeStart = "before start" // the handler was called as Job.BeforeTick
	beforeEnd   = "before end"   // it returns
	released    = "released"
	killed      = "killed"   // the instance's process ended in mid-work
	frozen      = "frozen"   // the instance's process stands still
	expelled    = "expelled" // the instance's session was ended from outside

	tickMissed   = "tick missed"   // Hooks.OnTickMissed was called
	tickComplete = "tick complete" // Hooks.OnTickComplete was called
)

// An entry is one event. All times are by the machine's clock.
type entry struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	SID   string    `json:"sid"`
	Job   string    `json:"job"` // or shard, as "job[3]"
	Token int64     `json:"token"`

	Shards int `json:"shards,omitempty"` // how many there were, of a job with shards

	// Of runs.
	ID      string    `json:"id"`
	Tick    time.Time `json:"tick"`
	Manual  bool      `json:"manual"`
	Attempt int       `json:"attempt"` // of the tick
	Cause   string    `json:"cause"`   // of the context's end, if it had ended
}

// A run is one call of a handler, assembled from entries.
type run struct {
	entry // of its start

	End   time.Time // zero while running
	Cause string
}

// A ledger records the deeds to the instances of one cluster.
type ledger struct {
	path string // child processes append to it

	mu      sync.Mutex
	entries []entry // of the test's process
}

// add records an entry of the test's process at the current time.
func (l *ledger) add(e entry) {
	e.At = time.Now().Round(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// all returns the entries of all processes in the order of time.
func (l *ledger) all() ([]entry, error) {
	l.mu.Lock()
	entries := slices.Clone(l.entries)
	l.mu.Unlock()

	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// An incomplete last line is still being written.
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("ledger line %q: %w", line, err)
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.At.Compare(b.At) })
	return entries, nil
}

// runsOf assembles the runs, in the order in which they started.
func runsOf(entries []entry) []run {
	var runs []run
	at := make(map[string]int)
	for _, e := range entries {
		switch e.Event {
		case runStart:
			at[e.ID] = len(runs)
			runs = append(runs, run{entry: e})
		case runEnd:
			r := &runs[at[e.ID]]
			r.End, r.Cause = e.At, e.Cause
		}
	}
	return runs
}

// violations returns the findings of package audit. A run whose process was killed or suspended
// counts up to that moment: no lease can stop a process that the kernel has suspended. So does a
// run whose session was closed on the server while its lease lasted. A manual run is not at a tick.
func violations(entries []entry) (found []string) {
	var evidence []audit.Run
	for _, r := range runsOf(entries) {
		e := audit.Run{Job: r.Job, Instance: r.SID, Tick: r.Tick, Attempt: r.Attempt, Token: r.Token, Start: r.At, End: workEnd(r, entries)}
		if r.Manual {
			e.Tick = time.Time{}
		}
		evidence = append(evidence, e)
	}
	for _, f := range audit.Runs(evidence) {
		found = append(found, f.String())
	}
	return found
}

// workEnd returns when r stopped doing anything; zero if it is still running.
func workEnd(r run, entries []entry) time.Time {
	for _, e := range entries {
		stopped := e.Event == killed || e.Event == frozen || e.Event == expelled
		if stopped && e.SID == r.SID && e.At.After(r.At) && (r.End.IsZero() || e.At.Before(r.End)) {
			return e.At
		}
	}
	return r.End
}

func (r run) String() string {
	const layout = "15:04:05.000"
	end := "never"
	if !r.End.IsZero() {
		end = r.End.Format(layout)
	}
	return fmt.Sprintf("%s tick %s on %s (token %#x, started %s, ended %s, cause %q)",
		r.Job, r.Tick.Format(layout), r.SID, r.Token, r.At.Format(layout), end, r.Cause)
}

// Package audit has its own tests; this one covers the rule for the end of a run.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(second float64) time.Time { return start.Add(time.Duration(second * float64(time.Second))) }
	// A run of job "j" from begin to end; 0 means that it does not end.
	ran := func(sid string, token int64, tick, begin, end float64) []entry {
		e := entry{Event: runStart, At: at(begin), SID: sid, Job: "j", Token: token, ID: fmt.Sprint(sid, tick), Tick: at(tick), Attempt: 1}
		entries := []entry{e}
		if end != 0 {
			e.Event, e.At = runEnd, at(end)
			entries = append(entries, e)
		}
		return entries
	}
	manual := func(run []entry) []entry {
		for k := range run {
			run[k].Manual = true
		}
		return run
	}
	stop := func(event, sid string, second float64) []entry {
		return []entry{{Event: event, SID: sid, At: at(second)}}
	}
	for name, test := range map[string]struct {
		entries [][]entry
		want    int
	}{
		"nothing":           {nil, 0},
		"in turn":           {[][]entry{ran("a", 1, 1, 1, 2), ran("a", 1, 2, 2, 3), ran("b", 2, 3, 3, 4)}, 0},
		"killed":            {[][]entry{ran("a", 1, 1, 1, 0), stop(killed, "a", 2), ran("b", 2, 3, 3, 4)}, 0},
		"killed too late":   {[][]entry{ran("a", 1, 1, 1, 0), ran("b", 2, 3, 3, 4), stop(killed, "a", 3.5)}, 1},
		"frozen":            {[][]entry{ran("a", 1, 1, 1, 5), stop(frozen, "a", 2), ran("b", 2, 3, 3, 4)}, 0},
		"expelled":          {[][]entry{ran("a", 1, 1, 1, 5), stop(expelled, "a", 2), ran("b", 2, 3, 3, 4)}, 0},
		"another is frozen": {[][]entry{ran("a", 1, 1, 1, 5), stop(frozen, "c", 2), ran("b", 2, 3, 3, 4)}, 1},
		"tick twice":        {[][]entry{ran("a", 1, 1, 1, 2), ran("b", 2, 1, 3, 4)}, 1},
		"manual runs":       {[][]entry{manual(ran("a", 1, 1, 1, 2)), manual(ran("b", 2, 1, 3, 4))}, 0},
	} {
		entries := slices.Concat(test.entries...)
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
		if found := violations(entries); len(found) != test.want {
			t.Errorf("%s: found %q, want %d violations", name, found, test.want)
		}
	}
}

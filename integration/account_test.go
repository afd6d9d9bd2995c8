package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// The states in swctl's JSON that the tests use.
const (
	stateOK          = "ok"
	stateFailed      = "failed"
	stateTimedOut    = "timed_out"
	stateInterrupted = "interrupted"
	stateLost        = "lost"
	stateSkipped     = "skipped"
	stateMissed      = "missed"
	stateRunning     = "running"
)

// jsonEntry is the part of an entry of swctl history that the tests use.
type jsonEntry struct {
	Tick       time.Time `json:"tick"`
	LastTick   time.Time `json:"last_tick"`
	Count      int       `json:"count"`
	State      string    `json:"state"`
	Reason     string    `json:"reason"`
	InstanceID string    `json:"instance_id"`
	RunID      string    `json:"run_id"`
	Attempt    int       `json:"attempt"`
	NotBegun   bool      `json:"not_begun"`
	Manual     string    `json:"manual"`
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	Error      string    `json:"error"`
}

func (e jsonEntry) String() string {
	if e.RunID == "" {
		return fmt.Sprintf("%d ticks %s to %s %s %s", e.Count, clock(e.Tick), clock(e.LastTick), e.State, e.Reason)
	}
	return fmt.Sprintf("tick %s attempt %d %s on %s, %s to %s, %q", clock(e.Tick), e.Attempt, e.State, e.InstanceID,
		clock(e.StartedAt), clock(e.EndedAt), e.Error)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// jsonWhy is the part of swctl why that the tests use.
type jsonWhy struct {
	Tick   time.Time `json:"tick"`
	Fate   string    `json:"fate"`
	Reason string    `json:"reason"`
}

// history returns a job's history from swctl, oldest first.
func (s *swctl) history(job string) []jsonEntry {
	s.t.Helper()
	items := decode[jsonList[jsonEntry]](s.t, s.run(exitOK, "history", job, "-o", "json").stdout).Items
	slices.Reverse(items)
	return items
}

// why calls swctl why for a tick of a job, and checks its fate and the words of the answer.
func (s *swctl) why(job string, tick time.Time, fate string, words ...string) {
	s.t.Helper()
	args := []string{"why", job}
	if !tick.IsZero() {
		args = append(args, "--at", tick.Format(time.RFC3339))
	}
	why := decode[jsonWhy](s.t, s.run(exitOK, append(args, "-o", "json")...).stdout)
	if !tick.IsZero() && !why.Tick.Equal(tick) || why.Fate != fate {
		s.t.Errorf("why %s of %s: %+v, want that it is %s", job, clock(tick), why, fate)
	}
	text := s.run(exitOK, args...).stdout
	for _, word := range words {
		if !strings.Contains(text, word) {
			s.t.Errorf("why %s says %q, want %q", job, text, word)
		}
	}
}

// await waits until the history of a job has n accepted entries, and returns them.
func (s *swctl) await(c *cluster, job string, n int, accept func(jsonEntry) bool) (found []jsonEntry) {
	s.t.Helper()
	c.eventually(fmt.Sprintf("%d such entries in the history of %s", n, job), func() error {
		all := s.history(job)
		found = slices.DeleteFunc(slices.Clone(all), func(e jsonEntry) bool { return !accept(e) })
		if len(found) < n {
			return fmt.Errorf("it is %v", all)
		}
		return nil
	})
	return found
}

// in accepts entries in a state.
func in(state string) func(jsonEntry) bool {
	return func(e jsonEntry) bool { return e.State == state }
}

// accounted audits a history without its manual runs.
func accounted(entries []jsonEntry, period time.Duration) error {
	var history []audit.Entry
	for _, e := range entries {
		switch {
		case e.Manual != "":
		case e.RunID != "":
			history = append(history, audit.Entry{Tick: e.Tick, Attempt: e.Attempt, NotBegun: e.NotBegun})
		default:
			history = append(history, audit.Entry{Tick: e.Tick, Last: e.LastTick, Count: e.Count})
		}
	}
	return audit.Account(history, period)
}

// isAccounted is accounted for a job with a fixed period.
func (s *swctl) isAccounted(job string, period time.Duration) {
	s.t.Helper()
	entries := s.history(job)
	if err := accounted(entries, period); err != nil {
		s.t.Errorf("history of %s: %v in %v", job, err, entries)
	}
}

// rarePeriod is the period of a job that has only one tick during a test.
const rarePeriod = 10 * time.Second

// rareFrom returns a schedule with a tick every ten seconds, one of them at the given second.
func rareFrom(tick time.Time) string { return fmt.Sprintf("%d/10 * * * * ?", tick.Second()%10) }

// soon returns the first whole second that is at least d away.
func soon(d time.Duration) time.Time {
	return time.Now().Add(d + time.Second - time.Nanosecond).Truncate(time.Second)
}

// Package audit has its own tests; this one covers its input.
func TestAccounted(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	ran := func(tick, attempt int) jsonEntry {
		return jsonEntry{RunID: "r", Tick: at(tick), LastTick: at(tick), Attempt: attempt, Count: 1}
	}
	missed := jsonEntry{State: stateMissed, Tick: at(2), LastTick: at(3), Count: 2}
	manual := jsonEntry{RunID: "m", Tick: at(5), Attempt: 1, Manual: "q"}
	for name, test := range map[string]struct {
		entries []jsonEntry
		ok      bool
	}{
		"all":            {[]jsonEntry{ran(1, 1), missed, manual, ran(4, 1), ran(4, 2)}, true},
		"a gap":          {[]jsonEntry{ran(1, 1), missed, ran(5, 1)}, false},
		"ran and missed": {[]jsonEntry{ran(1, 1), ran(2, 1), missed}, false},
	} {
		if err := accounted(test.entries, time.Second); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

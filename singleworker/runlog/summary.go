package runlog

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// Summary sums up a log of one job, shard, or job at an instance.
type Summary struct {
	Slot string `json:"slot"`
	Job  string `json:"job"`
	// LastSuccess is when the last run that succeeded ended, and LastFailure the last that failed,
	// timed out, or was lost.
	LastSuccess time.Time `json:"last_success_at,omitzero"`
	LastFailure time.Time `json:"last_failure_at,omitzero"`
	// LastError is the last failure's.
	LastError string `json:"last_error,omitempty"`
	// Streak is how many runs have failed since the last one that succeeded. Interrupted ones do not
	// count.
	Streak int `json:"failure_streak"`

	Runs    int `json:"runs"` // all that have ended, retries among them
	OK      int `json:"ok"`
	Failed  int `json:"failed"`  // those that LastFailure is about
	Skipped int `json:"skipped"` // ticks
	Missed  int `json:"missed"`  // ticks
	Holes   int `json:"holes"`

	Duration Spread `json:"duration_ms"` // of the runs that succeeded
	Lateness Spread `json:"lateness_ms"` // of the first attempts of ticks
}

// Spread is how values are distributed, in milliseconds: percentiles, by nearest rank.
type Spread struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50"`
	P95   int64 `json:"p95"`
	P99   int64 `json:"p99"`
	Max   int64 `json:"max"`
}

// Summarize reads entries, newest first as [Store].Entries returns them, and sums them up for each
// slot, in the order of their names. It needs memory for two numbers of each run.
func Summarize(entries iter.Seq2[Entry, error]) ([]Summary, error) {
	sums := make(map[string]*sum)
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if e.Slot == "" {
			continue
		}
		s := sums[e.Slot]
		if s == nil {
			s = &sum{Summary: Summary{Slot: e.Slot, Job: e.Job}}
			sums[e.Slot] = s
		}
		s.add(e)
	}
	all := make([]Summary, 0, len(sums))
	for _, slot := range slices.Sorted(maps.Keys(sums)) {
		s := sums[slot]
		s.Duration, s.Lateness = spread(s.durations), spread(s.lates)
		for _, began := range s.failures {
			if !began.Before(s.succeeded) {
				s.Streak++
			}
		}
		all = append(all, s.Summary)
	}
	return all, nil
}

type sum struct {
	Summary

	durations, lates []int64
	failures         []time.Time // when the runs of the streak began; a late result is newer than those of later runs
	succeeded        time.Time   // when the latest run began that succeeded
}

func (s *sum) add(e Entry) {
	switch {
	case e.Kind == Hole:
		s.Holes++
	case e.Kind == NotRun && e.State == history.StateMissed:
		s.Missed += e.Count
	case e.Kind == NotRun:
		s.Skipped += e.Count
	case e.Kind == Ran:
		s.addRun(e)
	}
}

func (s *sum) addRun(e Entry) {
	s.Runs++
	if late, ok := e.Late(); ok {
		s.lates = append(s.lates, late.Milliseconds())
	}
	switch e.State {
	case history.StateOK:
		s.OK++
		s.durations = append(s.durations, e.Duration().Milliseconds())
		if e.Started.After(s.succeeded) {
			s.succeeded = e.Started
		}
		if s.LastSuccess.IsZero() {
			s.LastSuccess = e.At
		}
	case history.StateFailed, history.StateTimedOut, history.StateLost:
		s.Failed++
		if s.LastSuccess.IsZero() || e.Started.After(s.succeeded) {
			s.failures = append(s.failures, e.Started)
		}
		if s.LastFailure.IsZero() {
			s.LastFailure, s.LastError = e.At, e.Error
		}
	default: // neither a success nor a failure
	}
}

func spread(values []int64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	rank := func(percent int) int64 { return values[(len(values)*percent+99)/100-1] }
	return Spread{Count: len(values), P50: rank(50), P95: rank(95), P99: rank(99), Max: values[len(values)-1]}
}

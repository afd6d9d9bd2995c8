package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// verdict is the result of the demonstration.
type verdict struct {
	runs, terms          int
	afterKill, afterStop time.Duration // from the leader's end to the next run
}

func (v verdict) String() string {
	return fmt.Sprintf("%d runs in %d terms, never on two workers; next run %v after kill -9 (session %v), %v after a clean stop (the job is due every %v)",
		v.runs, v.terms, v.afterKill.Round(time.Millisecond), session, v.afterStop.Round(time.Millisecond), period)
}

// The limits. The server expires sessions every 500 ms, and the job has a period.
const (
	mostAfterKill = session + 500*time.Millisecond + 2*period
	mostAfterStop = 50*time.Millisecond + 2*period
	// For a busy machine, but so much less than a session timeout that a handover still differs from a
	// takeover.
	slack = session * 3 / 4
)

// judge checks the runs. Ordered by time, each term must have one worker and a larger token than
// the term before.
func judge(runs []run, killed, stopped time.Time) (verdict, error) {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b run) int { return a.At.Compare(b.At) })
	v := verdict{runs: len(runs)}
	var last run
	for _, r := range runs {
		switch {
		case r.Token < last.Token:
			return v, fmt.Errorf("%s ran with token %d after %s had with %d", r.Worker, r.Token, last.Worker, last.Token)
		case r.Token == last.Token && r.Worker != last.Worker:
			return v, fmt.Errorf("%s and %s ran with one token", r.Worker, last.Worker)
		case r.Token > last.Token:
			v.terms++
			switch v.terms {
			case 2:
				v.afterKill = r.At.Sub(killed)
			case 3:
				v.afterStop = r.At.Sub(stopped)
			}
		}
		last = r
	}
	switch {
	case v.terms != 3:
		return v, fmt.Errorf("%d terms, want three", v.terms)
	case v.afterKill > mostAfterKill+slack:
		return v, fmt.Errorf("the next run was %v after the kill, want %v", v.afterKill, mostAfterKill)
	case v.afterStop > mostAfterStop+slack:
		return v, fmt.Errorf("the next run was %v after the stop, want %v", v.afterStop, mostAfterStop)
	case v.runs < 10:
		return v, errors.New("too few runs")
	}
	return v, nil
}

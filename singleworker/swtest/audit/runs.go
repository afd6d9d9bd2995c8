package audit

import (
	"fmt"
	"slices"
	"time"
)

// Run is the evidence of one call of a handler.
type Run struct {
	Job      string    // or shard; at most one run of it may be in progress at a time
	Instance string    // that called the handler
	Tick     time.Time // of the schedule; zero for a manual run
	Attempt  int       // at the tick, from 1
	Token    int64     // the fencing token
	Start    time.Time
	End      time.Time // from when on it had no effect any more; zero if it never ended
}

// Rule is a promise about all runs of a job.
type Rule int

// The rules.
const (
	// Early: no run starts before its tick.
	Early Rule = iota + 1
	// Twice: a tick runs once, except that a later attempt may follow an earlier one.
	Twice
	// Skipped: attempts at a tick are consecutive.
	Skipped
	// Order: ticks run in their order.
	Order
	// Overlap: a run starts after all earlier runs have ended.
	Overlap
	// Token: the token never goes back, and grows when another instance runs the job.
	Token
)

// Finding is a rule that does not hold.
type Finding struct {
	Rule   Rule
	Before Run // the earlier of the two runs that do not go together; zero for Early
	Run    Run
}

func (f Finding) String() string {
	b, r := f.Before, f.Run
	switch f.Rule {
	case Early:
		return fmt.Sprintf("%s: tick %s ran at %s, too early", r.Job, clock(r.Tick), clock(r.Start))
	case Twice:
		return fmt.Sprintf("%s: tick %s ran twice, on %s and %s", r.Job, clock(r.Tick), b.Instance, r.Instance)
	case Skipped:
		return fmt.Sprintf("%s: tick %s: attempt %d on %s follows attempt %d on %s", r.Job, clock(r.Tick), r.Attempt, r.Instance, b.Attempt, b.Instance)
	case Order:
		return fmt.Sprintf("%s: tick %s ran on %s after tick %s on %s", r.Job, clock(r.Tick), r.Instance, clock(b.Tick), b.Instance)
	case Overlap:
		return fmt.Sprintf("%s: the runs of ticks %s on %s and %s on %s overlap", r.Job, clock(b.Tick), b.Instance, clock(r.Tick), r.Instance)
	case Token:
		return fmt.Sprintf("%s: token %d of %s follows token %d of %s", r.Job, r.Token, r.Instance, b.Token, b.Instance)
	}
	return fmt.Sprintf("%s: rule %d", r.Job, f.Rule)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "(manual)"
	}
	return t.UTC().Format("15:04:05.000")
}

// Runs checks the runs of any number of jobs, in any order, and returns the findings in the order
// of the runs' starts. Runs that start at the same time are taken in the order given.
func Runs(runs []Run) []Finding {
	byStart := slices.Clone(runs)
	slices.SortStableFunc(byStart, func(a, b Run) int { return a.Start.Compare(b.Start) })
	jobs := make(map[string]*job)
	var found []Finding
	for _, r := range byStart {
		if jobs[r.Job] == nil {
			jobs[r.Job] = &job{ran: make(map[int64]Run)}
		}
		found = append(found, jobs[r.Job].add(r)...)
	}
	return found
}

// job is the state of the runs of a job so far.
type job struct {
	n       int
	last    Run           // to start
	longest Run           // to end
	tick    Run           // of the schedule, the last one
	ran     map[int64]Run // by tick, the last attempt
}

func (j *job) add(r Run) (found []Finding) {
	report := func(broken bool, rule Rule, before Run) {
		if broken {
			found = append(found, Finding{rule, before, r})
		}
	}
	if !r.Tick.IsZero() {
		tick := r.Tick.UnixMilli()
		before, again := j.ran[tick]
		report(r.Start.Before(r.Tick), Early, Run{})
		report(again && r.Attempt <= before.Attempt, Twice, before)
		report(again && r.Attempt > before.Attempt+1, Skipped, before)
		report(r.Tick.Before(j.tick.Tick), Order, j.tick)
		j.ran[tick], j.tick = r, r
	}
	if j.n > 0 {
		report(j.longest.End.IsZero() || r.Start.Before(j.longest.End), Overlap, j.longest)
		report(r.Token < j.last.Token || r.Token == j.last.Token && r.Instance != j.last.Instance, Token, j.last)
	}
	if j.n == 0 || !j.longest.End.IsZero() && (r.End.IsZero() || r.End.After(j.longest.End)) {
		j.longest = r
	}
	j.last = r
	j.n++
	return found
}

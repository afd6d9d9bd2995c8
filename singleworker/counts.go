package singleworker

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// keepCounts is how long the counts of a job are kept when this instance has nothing more to do
// with it, so that those who read them now and then see the last ones.
const keepCounts = time.Hour

// counts is what Stats is made of. Its methods are called for each event, from several goroutines,
// so they only count.
type counts struct {
	mu      sync.Mutex
	stats   Stats
	jobs    map[string]*jobCounts
	hanging map[string]bool // by ID: runs in progress
	swept   time.Time       // when jobs was last looked through for those to forget
}

// jobCounts is kept for every job that is owned, so what only jobs that run need is apart.
type jobCounts struct {
	owned, running int
	lastSuccess    time.Time
	idle           time.Time // since when it is neither owned nor running
	acquired       origin
	more           *JobStats // nil until there is something to count but acquired
}

// origin counts the first key of Counts.Acquired that a job has. Most have no other, and a map is
// eight times as large.
type origin struct {
	name  string
	count uint64
}

func newCounts() *counts {
	return &counts{stats: Stats{Sessions: make(map[SessionState]uint64)}, jobs: make(map[string]*jobCounts), hanging: make(map[string]bool), swept: time.Now()}
}

// job returns the counts of a job. mu must be held.
func (c *counts) job(name string) *jobCounts {
	j := c.jobs[name]
	if j == nil {
		c.forget()
		j = &jobCounts{idle: time.Now()}
		c.jobs[name] = j
	}
	return j
}

// forget drops the jobs that this instance has had nothing to do with for long. mu must be held.
func (c *counts) forget() {
	now := time.Now()
	if now.Sub(c.swept) < keepCounts/60 {
		return
	}
	c.swept = now
	maps.DeleteFunc(c.jobs, func(_ string, j *jobCounts) bool {
		return j.owned == 0 && j.running == 0 && now.Sub(j.idle) > keepCounts
	})
}

// both counts for a job and for all. mu must be held.
func (c *counts) both(j *jobCounts, count func(*Counts)) {
	count(&j.stats().Counts)
	count(&c.stats.Total)
}

func (j *jobCounts) stats() *JobStats {
	if j.more == nil {
		j.more = new(JobStats)
	}
	return j.more
}

// acquire counts that a slot of the job came to this instance.
func (j *jobCounts) acquire(from string) {
	if j.acquired.count > 0 && j.acquired.name != from {
		bump(&j.stats().Acquired, from, 1)
		return
	}
	j.acquired = origin{from, j.acquired.count + 1}
}

// snapshot returns a copy.
func (j *jobCounts) snapshot() JobStats {
	var s JobStats
	if j.more != nil {
		s = *j.more
		s.Counts = s.clone()
	}
	s.Owned, s.Running, s.LastSuccess = j.owned, j.running, j.lastSuccess
	if j.acquired.count > 0 {
		bump(&s.Acquired, j.acquired.name, int(j.acquired.count))
	}
	return s
}

// bump adds to the count of a key.
func bump[K comparable](m *map[K]uint64, key K, n int) {
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[key] += uint64(n)
}

func (c *counts) owned(job, from string, last ticks.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(job)
	j.owned++
	c.stats.Owned++
	if ended := time.UnixMilli(last.Ended); last.State == history.StateOK && ended.After(j.lastSuccess) {
		j.lastSuccess = ended
	}
	j.acquire(from)
	bump(&c.stats.Total.Acquired, from, 1)
}

func (c *counts) released(job string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(job)
	j.owned--
	c.stats.Owned--
	if j.owned == 0 {
		j.stats().Failing, j.idle = 0, time.Now()
	}
	c.both(j, func(n *Counts) { bump(&n.Released, releaseOf(cause), 1) })
}

func releaseOf(cause error) string {
	switch {
	case errors.Is(cause, owner.ErrHandedOver):
		return "handed_over"
	case errors.Is(cause, ErrLeaseLost):
		return "lease_lost"
	case errors.Is(cause, ErrJobCanceled):
		return "canceled"
	}
	return "other"
}

// started counts a run whose handler is called so long after its tick.
func (c *counts) started(r RunInfo, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(r.Job)
	j.running++
	c.stats.Running++
	first := r.Attempt == 1 && r.Manual == ""
	if first {
		j.stats().LastLateness = max(late, 0)
	}
	c.both(j, func(n *Counts) {
		n.Claims++
		if r.Attempt > 1 {
			n.Repeats++
		}
		if first {
			n.Lateness.add(late)
		}
	})
}

func (c *counts) refused(job string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both(c.job(job), func(n *Counts) { bump(&n.Refused, refusalOf(err), 1) })
}

func refusalOf(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{ticks.ErrConflict, "conflict"},
		{ticks.ErrNoRequest, "request_gone"},
		{ticks.ErrSpecChanged, "spec_changed"},
		{owner.ErrNotOwner, "not_owner"},
		{owner.ErrNotLeader, "not_owner"},
		{ErrLeaseLost, "lease"},
		{journal.ErrDraining, "draining"},
		{journal.ErrTooEarly, "clock"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "other"
}

func (c *counts) hung(r RunInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hanging[r.RunID] = true
}

func (c *counts) ended(r RunResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, took := c.job(r.Job), r.Ended.Sub(r.Started)
	j.running--
	c.stats.Running--
	delete(c.hanging, r.RunID)
	if j.owned == 0 {
		j.idle = time.Now()
	}
	s := j.stats()
	s.LastDuration = max(took, 0)
	switch r.State {
	case history.StateOK:
		j.lastSuccess, s.Failing = r.Ended, 0
	case history.StateFailed, history.StateTimedOut:
		s.Failing++
	default:
	}
	c.both(j, func(n *Counts) {
		bump(&n.Runs, r.State, 1)
		n.Duration.add(took)
		if r.Unrecorded != nil {
			n.Unrecorded++
		}
	})
}

// notRun counts the ticks of an entry that were not run.
func (c *counts) notRun(e Recorded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both(c.job(e.Job), func(n *Counts) {
		if e.State == history.StateSkipped {
			bump(&n.Skipped, e.Reason, e.Count)
		} else {
			bump(&n.Missed, e.Reason, e.Count)
		}
	})
}

func (c *counts) overdue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Overdue++
}

func (c *counts) takenOver(silent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Takeovers.add(silent)
}

func (c *counts) session(to SessionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Sessions[to]++
}

// snapshot returns a copy.
func (c *counts) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	s := c.stats
	s.Hung, s.Total, s.Sessions = len(c.hanging), s.Total.clone(), maps.Clone(s.Sessions)
	s.Jobs = make(map[string]JobStats, len(c.jobs))
	for name, j := range c.jobs {
		s.Jobs[name] = j.snapshot()
	}
	return s
}

func (n Counts) clone() Counts {
	n.Refused, n.Runs = maps.Clone(n.Refused), maps.Clone(n.Runs)
	n.Skipped, n.Missed = maps.Clone(n.Skipped), maps.Clone(n.Missed)
	n.Acquired, n.Released = maps.Clone(n.Acquired), maps.Clone(n.Released)
	return n
}

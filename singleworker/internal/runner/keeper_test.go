package runner

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

var (
	errNotOwner   = errors.New("not the owner")
	errSuperseded = errors.New("not in the history any more")
)

// keeper stands in for ZooKeeper and package coord: it compares and sets each
// job's record together with its history, which is never trimmed here.
type keeper struct {
	t *testing.T

	// pull decides the outcome of each commit; nil applies all.
	pull func(c ticks.Commit) lever
	// amend, if not nil, is the error of Amend.
	amend error

	mu      sync.Mutex
	sent    []string // when commits came, and how many together
	jobs    map[string]*kept
	forgets int            // how often History fails
	commits []ticks.Commit // that were applied, in order
	left    []string       // jobs that wait for places no longer
	stacks  [][2]string    // run, and where its handler was
	dropped []string       // requests, in order
}

// lever is the outcome of one commit.
type lever struct {
	delay    time.Duration // before it is processed
	refuse   error         // and it is not applied
	conflict bool          // as if the record had changed; it is not applied
	after    error         // it is applied, and this is reported
	then     func()        // called before the answer
	reply    time.Duration // how late the answer is
}

// kept is a job's records.
type kept struct {
	lease    *leases.Lease // of the owner; nil: the job has no owner
	record   ticks.Record
	history  []ticks.Entry
	requests []string
	account  []span
}

// span is a time in which a schedule was in effect.
type span struct {
	schedule *cronexpr.Schedule
	from, to time.Time // ticks after from and up to to; zero: no end
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{t: t, jobs: make(map[string]*kept)}
	t.Cleanup(k.check)
	return k
}

// job is called with mu held.
func (k *keeper) job(name string) *kept {
	if k.jobs[name] == nil {
		k.jobs[name] = &kept{}
	}
	return k.jobs[name]
}

// change edits a job's records, as an operator or another instance would.
func (k *keeper) change(name string, f func(j *kept)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k.job(name))
}

// read returns a job's records.
func (k *keeper) read(name string) kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	j := *k.job(name)
	j.history = slices.Clone(j.history)
	return j
}

// opened lists the records of the commits that opened a run of the job.
func (k *keeper) opened(name string) (records []ticks.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.commits {
		if c.Slot == name && c.Plan.Opens {
			records = append(records, c.Plan.Record)
		}
	}
	return records
}

// Commit implements the method that package coord documents.
func (k *keeper) Commit(all []*ticks.Commit, done func(int, *ticks.Record, error)) {
	k.mu.Lock()
	k.sent = append(k.sent, fmt.Sprintf("%v: %d", time.Since(midnight), len(all)))
	k.mu.Unlock()
	for i, c := range all {
		go func() {
			current, err := k.commit(*c)
			done(i, &current, err)
		}()
	}
}

func (k *keeper) commit(c ticks.Commit) (ticks.Record, error) {
	var l lever
	if k.pull != nil {
		l = k.pull(c)
	}
	time.Sleep(l.delay)
	if l.refuse != nil {
		return ticks.Record{}, l.refuse
	}
	current, err := k.apply(c, l.conflict)
	if l.then != nil {
		l.then()
	}
	time.Sleep(l.reply)
	if err == nil {
		err = l.after
	}
	return current, err
}

func (k *keeper) apply(c ticks.Commit, conflict bool) (ticks.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	j, to := k.job(c.Slot), c.Plan.Record.Normal()
	opens := to.Open() && to.RunID != c.From.RunID
	switch {
	case c.Token != 0 && (j.lease == nil || j.lease.Token != c.Token):
		return ticks.Record{}, errNotOwner
	case c.Token != 0 && j.lease.Err() != nil:
		return ticks.Record{}, j.lease.Err()
	case j.record == to:
		return to, nil
	case j.record != c.From || conflict:
		return j.record, ticks.ErrConflict
	case opens && to.Manual != "" && !slices.Contains(j.requests, to.Manual):
		return ticks.Record{}, ticks.ErrNoRequest
	}
	k.judge(c, to)
	if c.Plan.Request != "" {
		j.requests = without(j.requests, c.Plan.Request)
	}
	j.record = to
	for _, e := range c.Plan.Entries {
		e.Error = zkrec.CutError(e.Error)
		j.history = append(j.history, e)
	}
	k.commits = append(k.commits, c)
	return to, nil
}

// judge checks the invariants of a change.
func (k *keeper) judge(c ticks.Commit, to ticks.Record) {
	speaksOf := func(e ticks.Entry) bool { return e.RunID == c.From.RunID && e.RunID != "" }
	switch {
	case to.Watermark < c.From.Watermark:
		k.t.Errorf("%s: Watermark goes back from %d to %d", c.Slot, c.From.Watermark, to.Watermark)
	case c.Plan.Opens != (to.Open() && to.RunID != c.From.RunID):
		k.t.Errorf("%s: opens %v, from %+v to %+v", c.Slot, c.Plan.Opens, c.From, to)
	case c.Plan.Opens && c.Token == 0:
		k.t.Errorf("%s: opened without a token", c.Slot)
	case c.From.Open() && to.RunID != c.From.RunID && !slices.ContainsFunc(c.Plan.Entries, speaksOf):
		k.t.Errorf("%s: run %s vanished without an entry", c.Slot, c.From.RunID)
	}
}

// History implements the method that package coord documents.
func (k *keeper) History(job string, done func([]ticks.Entry, error)) {
	go func() {
		k.mu.Lock()
		refused := k.forgets > 0
		k.forgets--
		k.mu.Unlock()
		if refused {
			done(nil, errNotOwner)
			return
		}
		done(k.read(job).history, nil)
	}()
}

// Amend implements the method that package coord documents.
func (k *keeper) Amend(job string, e ticks.Entry, done func(error)) { done(k.correct(job, e)) }

func (k *keeper) correct(job string, e ticks.Entry) error {
	if k.amend != nil {
		return k.amend
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.job(job)
	i := slices.IndexFunc(j.history, func(old ticks.Entry) bool { return old.RunID == e.RunID })
	if i < 0 {
		return errSuperseded
	}
	j.history[i] = e
	return nil
}

// Stack keeps where a handler was.
func (k *keeper) Stack(_, runID, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stacks = append(k.stacks, [2]string{runID, text})
}

// LeaveLine takes in that a job does not wait for places any more.
func (k *keeper) LeaveLine(job string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = append(k.left, job)
}

// leavers are the jobs that LeaveLine has told of.
func (k *keeper) leavers() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.left)
}

// Drop removes a request.
func (k *keeper) Drop(job, request string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropped = append(k.dropped, request)
	k.job(job).requests = without(k.job(job).requests, request)
}

func without(list []string, drop string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == drop })
}

// own notes which schedule is in effect.
func (k *keeper) own(j Job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.job(j.Name)
	if n := len(kept.account); n == 0 {
		from := time.UnixMilli(kept.record.Watermark)
		if r := kept.record; r.Open() || r.NextAttempt != "" {
			from = time.UnixMilli(r.Tick - 1) // earlier ticks are not checked
		}
		if from.Before(j.Job.Since) {
			from = j.Job.Since
		}
		kept.account = []span{{schedule: j.Schedule, from: from}}
	} else if last := &kept.account[n-1]; last.schedule != j.Schedule {
		last.to = j.Job.Since
		kept.account = append(kept.account, span{schedule: j.Schedule, from: j.Job.Since})
	}
}

// check expects the account of every job to be complete: each tick up to Watermark has exactly one
// final state or is being run, and no other tick is recorded.
func (k *keeper) check() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, j := range k.jobs {
		ends, problems := j.ends()
		for _, p := range problems {
			k.t.Errorf("%s: %s", name, p)
		}
		for _, s := range j.account {
			for tick := s.schedule.Next(s.from); !tick.IsZero() && tick.UnixMilli() <= j.record.Watermark; tick = s.schedule.Next(tick) {
				if !s.to.IsZero() && tick.After(s.to) {
					break
				}
				if n := ends[tick.UnixMilli()]; n != 1 {
					k.t.Errorf("%s: the tick of %v is accounted for %d times", name, tick.UTC(), n)
				}
				delete(ends, tick.UnixMilli())
			}
		}
		if slices.ContainsFunc(j.account, func(s span) bool { return s.schedule.Always() }) {
			continue // its runs are no ticks of a schedule
		}
		for tick, n := range ends {
			k.t.Errorf("%s: the history has %d times %v, which is not a tick of the schedule", name, n, time.UnixMilli(tick).UTC())
		}
	}
}

// ends counts how often each tick was finished or is being run.
func (j *kept) ends() (ends map[int64]int, problems []string) {
	ends = make(map[int64]int)
	attempts := make(map[int64]int)  // by tick
	notBegun := make(map[int64]bool) // by tick: the last run of it was to be the first
	for _, e := range j.history {
		switch {
		case e.Manual != "":
		case e.RunID != "":
			if attempts[e.Tick]++; e.Attempt != attempts[e.Tick] {
				problems = append(problems, "attempts of one tick are not numbered from 1 by 1")
			}
			if e.NotBegun {
				attempts[e.Tick]-- // it does not count
			}
			if notBegun[e.Tick] = e.NotBegun && e.Attempt == 1; e.Attempt == 1 && !e.NotBegun {
				ends[e.Tick]++ // the others are further attempts at the same
			}
			if e.State == history.StateRunning {
				problems = append(problems, "a run in the history has no final state")
			}
		default:
			if n := j.row(e, ends); n != e.Ticks() {
				problems = append(problems, "a row has a wrong count")
			}
		}
	}
	if r := j.record; r.Open() && r.Manual == "" && r.Attempt == 1 {
		ends[r.Tick]++
		delete(notBegun, r.Tick)
	}
	for tick, last := range notBegun {
		if last {
			ends[tick]++
		}
	}
	return ends, problems
}

// row adds the ticks of a row.
func (j *kept) row(e ticks.Entry, ends map[int64]int) (n int) {
	for _, s := range j.account {
		for tick := s.schedule.Next(s.from); !tick.IsZero() && tick.UnixMilli() <= e.Last(); tick = s.schedule.Next(tick) {
			if !s.to.IsZero() && tick.After(s.to) {
				break
			}
			if tick.UnixMilli() >= e.Tick {
				ends[tick.UnixMilli()]++
				n++
			}
		}
	}
	return n
}

package roomtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Runner records its calls, and makes commits. Lock it to read its fields.
type Runner struct {
	sync.Mutex
	Owned     map[string]journal.Ownership // by slot
	Disowned  []error                      // causes
	Missed    []time.Time                  // ticks that this instance reported as overdue
	Done      []string                     // ticks that this instance reported as complete
	Announced int                          // how often requests were told
	AtLimit   bool                         // what Full reports
	Rooms     []string                     // slots for whose runs there may be places
	Terms     []string                     // beginnings and ends of terms as leader

	WrongClock bool // as told last

	g        *Group
	commits  Committer
	requests []string
}

// NewRunner returns the runner of an instance of g.
func NewRunner(g *Group) *Runner { return &Runner{g: g, Owned: make(map[string]journal.Ownership)} }

// CommitTo says how MustCommit commits.
func (r *Runner) CommitTo(to Committer) { r.commits = to }

// Own records that a slot is owned.
func (r *Runner) Own(o journal.Ownership) {
	r.Lock()
	defer r.Unlock()
	r.Owned[o.Slot] = o
	r.note(o.Slot, o.Requests)
}

// SessionChanged implements coord.Observer.
func (r *Runner) SessionChanged(session.State, time.Duration) {}

// TakenOver implements coord.Observer.
func (r *Runner) TakenOver(time.Duration) {}

// Leads records the beginning of a term as leader.
func (r *Runner) Leads(int64) { r.tellTerm("leads") }

// LeadsNoMore records its end.
func (r *Runner) LeadsNoMore(_ int64, cause error) { r.tellTerm(cause.Error()) }

func (r *Runner) tellTerm(what string) {
	r.Lock()
	defer r.Unlock()
	r.Terms = append(r.Terms, what)
}

// Requested records operators' requests.
func (r *Runner) Requested(slot string, requests []ticks.Request) {
	r.Lock()
	defer r.Unlock()
	r.note(slot, requests)
	r.Announced++
	r.setRequests(slot, requests)
}

func (r *Runner) setRequests(slot string, requests []ticks.Request) {
	if o, owned := r.Owned[slot]; owned {
		o.Requests = requests
		r.Owned[slot] = o
	}
}

// Forget drops a request that is done, as a runner does.
func (r *Runner) Forget(slot, id string) {
	r.Lock()
	defer r.Unlock()
	r.setRequests(slot, slices.DeleteFunc(slices.Clone(r.Owned[slot].Requests), func(request ticks.Request) bool { return request.ID == id }))
}

func (r *Runner) note(slot string, requests []ticks.Request) {
	if slot == "job" {
		r.requests = nil
		for _, request := range requests {
			r.requests = append(r.requests, request.ID)
		}
	}
}

// Room notes that there may be places for a run of a slot.
func (r *Runner) Room(slot string) {
	r.Lock()
	defer r.Unlock()
	r.Rooms = append(r.Rooms, slot)
}

// Begun records the gate of the first shard for which an owned slot waits.
func (r *Runner) Begun(slot string, known *ticks.Gate) {
	r.Lock()
	defer r.Unlock()
	if o, owned := r.Owned[slot]; owned {
		o.Gate = known
		r.Owned[slot] = o
	}
}

// Disown records that a slot is no longer owned.
func (r *Runner) Disown(slot string, cause error) {
	r.Lock()
	defer r.Unlock()
	delete(r.Owned, slot)
	r.Disowned = append(r.Disowned, cause)
}

// Full reports AtLimit.
func (r *Runner) Full() bool {
	r.Lock()
	defer r.Unlock()
	return r.AtLimit
}

// Evict records nothing: its runs end by themselves.
func (r *Runner) Evict(string) {}

// Overdue records a tick that is overdue.
func (r *Runner) Overdue(_ string, _ *zkrec.Spec, tick time.Time) {
	r.Lock()
	defer r.Unlock()
	r.Missed = append(r.Missed, tick)
}

// ClockChanged notes that the clock is wrong, or right again.
func (r *Runner) ClockChanged(wrong bool, _ offset.Interval) {
	r.Lock()
	defer r.Unlock()
	r.WrongClock = wrong
}

// Completed records a tick that all shards are done with.
func (r *Runner) Completed(job string, c ticks.Completion) {
	r.Lock()
	defer r.Unlock()
	states := make([]string, len(c.Shards))
	for i, e := range c.Shards {
		states[i] = string(e.State)
	}
	r.Done = append(r.Done, fmt.Sprintf("%s at %d: %s", job, c.Tick, strings.Join(states, " ")))
}

// Ownership waits until the instance owns the job.
func (r *Runner) Ownership() journal.Ownership {
	r.g.T.Helper()
	for range 300 {
		r.Lock()
		o, ok := r.Owned["job"]
		r.Unlock()
		if ok {
			return o
		}
		Pass(100 * time.Millisecond)
	}
	r.g.T.Fatal("the instance does not own the job")
	return journal.Ownership{}
}

// Slots lists the slots that the instance owns.
func (r *Runner) Slots() (slots []string) {
	r.Lock()
	defer r.Unlock()
	for slot := range r.Owned {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots
}

// Requests lists the requests for the job that the instance knows.
func (r *Runner) Requests() []string {
	r.Lock()
	defer r.Unlock()
	return slices.Clone(r.requests)
}

// Committer makes commits: it is a journal, or the coordinator above it.
type Committer interface {
	Commit(all []*ticks.Commit, done func(i int, current *zkrec.Tick, err error))
}

// Written makes a commit and waits for its answer. The record is zero if none is known.
func Written(to Committer, c ticks.Commit) (current zkrec.Tick, err error) {
	answered := make(chan struct{})
	to.Commit([]*ticks.Commit{&c}, func(_ int, record *zkrec.Tick, refused error) {
		if err = refused; record != nil {
			current = *record
		}
		close(answered)
	})
	<-answered
	return current, err
}

// MustCommit makes a change that must succeed.
func (r *Runner) MustCommit(c ticks.Commit) zkrec.Tick {
	r.g.T.Helper()
	current, err := Written(r.commits, c)
	if err != nil || !current.Same(c.Plan.Record.Normal()) {
		r.g.T.Fatalf("Commit = %+v, %v; want %+v", current, err, c.Plan.Record)
	}
	return current
}

// Runs claims a tick in each slot that the instance owns, and writes its result.
func (r *Runner) Runs(tick int64) {
	r.g.T.Helper()
	for _, slot := range r.Slots() {
		r.Lock()
		o := r.Owned[slot]
		r.Unlock()
		var current zkrec.Tick
		data, _, _ := r.g.Get(r.g.Tree.Tick(slot))
		if parsed, err := zkrec.ParseTick(data, time.Time{}); err == nil {
			current = parsed
		}
		done := Outcome(r.MustCommit(Claim(o, current, fmt.Sprintf("%s at %d", slot, tick), tick)), history.StateOK)
		done.Slot = slot
		r.MustCommit(done)
	}
}

// Commit is an owner's change of the record.
func Commit(o journal.Ownership, from, to zkrec.Tick) ticks.Commit {
	return ticks.Commit{
		Slot: o.Slot, Token: o.Lease.Token, Version: o.Job.Version, From: from, Plan: ticks.Plan{Record: to},
	}
}

// Claim is a commit that opens a run of a tick.
func Claim(o journal.Ownership, from zkrec.Tick, id string, tick int64) ticks.Commit {
	return Commit(o, from, zkrec.Tick{
		Watermark: tick, Run: zkrec.Run{
			Tick: tick, RunID: id, SID: "a", Token: o.Lease.Token, Attempt: 1, Started: tick, State: history.StateRunning,
		},
	})
}

// Outcome is a commit that closes a run of the job.
func Outcome(from zkrec.Tick, state history.State) ticks.Commit {
	to := from
	to.State, to.Ended = state, from.Started+1
	return ticks.Commit{Slot: "job", From: from, Plan: ticks.Plan{Record: to, Entries: []zkrec.Entry{{Run: to.Run}}}}
}

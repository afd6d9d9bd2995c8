package journal

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrDraining refuses to begin a run: the slot is about to be handed over.
var ErrDraining = errors.New("this instance is draining")

// ErrTooEarly refuses to account for a tick that is ahead of ZooKeeper's time: this instance's
// clock is wrong.
var ErrTooEarly = errors.New("the tick is too far ahead of ZooKeeper's time")

// errChanged: the runner was told of a record that has changed since, although the slot is owned.
var errChanged = errors.New("the tick record had a time that ZooKeeper's clock had given while it was wrong, or ZooKeeper has lost what was recorded")

// Ownership is a slot that this instance owns, with everything that running it takes.
type Ownership struct {
	Slot     string
	Job      *ticks.Job
	Spec     *zkrec.Spec // what Job was parsed from
	Lease    *leases.Lease
	Since    time.Time // when it was adopted, on this instance's clock
	From     string    // the owner that it was taken from because that had not claimed a run in time
	Origin   owner.Origin
	Record   *zkrec.Tick     // not changed, but replaced: the rooms and the runner share it
	Requests []ticks.Request // in the order in which they were made
	Gate     *ticks.Gate     // of a slot that waits for others; nil: nothing is known of them
}

// Runner runs the slots that this instance owns. Its methods are called on the loop, in the order
// of the events, and must not block.
type Runner interface {
	// Own: the slot is owned, or its job's spec has changed while it is.
	Own(o Ownership)
	// Requested: operators' requests have changed since Own.
	Requested(slot string, requests []ticks.Request)
	// Begun: g, the gate of the slots for which this one waits, has changed since Own.
	Begun(slot string, g *ticks.Gate)
	// Room: there may be places for a run that was refused with ticks.ErrLimited.
	Room(slot string)
	// Disown: the slot is no longer owned, or cannot run here any more. The contexts of its runs have
	// ended if it is no longer owned.
	Disown(slot string, cause error)
	// Full reports whether this instance may start no further run now.
	Full() bool
	// Evict: the run of the slot, of a job that always runs, is to end, for the slot to be handed over
	// then.
	Evict(slot string)
}

// Claimed tells how late a claim of this instance has been acknowledged: the first one of a tick
// that was held up by no other run, and that came after an earlier claim of the same owner.
type Claimed struct{ Late time.Duration }

// Stops tells that a slot's record is the last one of its job, which has claimed as many ticks as
// it may, or that it pauses the job, of which as many have failed.
type Stops struct {
	Slot   string
	Record *zkrec.Tick
}

// Journal keeps the records of owned slots.
type Journal struct {
	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog
	owner   *owner.Owner
	runner  Runner
	keep    int // entries of each history

	nodes nodes

	Gates  *Gates
	Places *Places
	Signal *Signal
	// Agenda says which slots a sync looks at.
	Agenda *agenda.Agenda[*node]
}

// owned is the state of a slot that this instance owns.
type owned struct {
	*owner.Ownership

	loading  bool // the slot's node is being read
	loaded   bool // it was
	dated    bool // it is read because a wrong clock may have dated it
	lost     bool // that shows that the servers have lost a change
	told     bool // the runner was
	busy     bool // as the protocol was told; at first it is, when the slot's node is read
	requests requests
}

// New returns a journal of nothing, which keeps so many entries of each history.
func New(loop *session.Loop, m *member.Member, c *catalog.Catalog, o *owner.Owner, runner Runner, keep int) *Journal {
	j := &Journal{
		loop: loop, member: m, catalog: c, owner: o, runner: runner, keep: keep,
		nodes: newNodes(loop.Log),
	}
	j.Agenda = j.nodes.agenda
	j.Gates, j.Places = newGates(j), newPlaces(j)
	j.Signal = newSignal(j, m.Self().Incarnation)
	return j
}

// Idle reports whether no run is under way and nothing is to be written.
func (j *Journal) Idle() bool { return len(j.nodes.bySlot) == 0 }

// Gained begins to follow a slot that this instance has come to own.
func (j *Journal) Gained(slot string) {
	ownership := j.owner.Owned(slot)
	if ownership == nil {
		return // lost in the same turn
	}
	own := &owned{Ownership: ownership}
	j.nodes.of(slot).own = own
	j.load(slot, own)
	j.ReadRequests(slot)
}

// lateSample is how many owned slots Late looks at.
const lateSample = 64

// Late reports whether this instance itself has left a run unclaimed for longer than a grace, or
// would: as many runs as may are in progress. It looks at some of the slots whose records it knows,
// and that it has owned for so long: another's death has made the runs of the others late.
func (j *Journal) Late(grace time.Duration) bool {
	if j.runner.Full() {
		return true
	}
	looked, t := 0, j.loop.Clock.Wall().Add(-grace)
	for slot, n := range j.nodes.bySlot {
		job := j.catalog.JobOf(slot)
		if !n.known || job == nil || !job.Eligible || !job.Valid() || n.own == nil || n.own.Since.After(t) {
			continue
		}
		if !ticks.Unclaimed(job.Ticks.Of(slot, j.Gates.of(job, slot)), *n.record, nil, t).IsZero() {
			return true
		}
		if looked++; looked == lateSample {
			break
		}
	}
	return false
}

// Lost stops following a slot.
func (j *Journal) Lost(slot string, cause error) {
	j.runner.Disown(slot, cause)
	j.Places.leave(slot)
	if n := j.nodes.bySlot[slot]; n != nil {
		n.own = nil
		// The nodes are others' to change from now on, or belong to a job that was submitted again, whose
		// versions may happen to be the same.
		n.known = false
		j.advance(n) // its claims are refused now
	}
}

// Joined reads again the nodes that were not followed while this instance was not joined: the job
// may have been deleted and submitted again. It does so at once if a result may be lost: perhaps
// nothing else is written for long.
func (j *Journal) Joined() {
	j.Gates.forget()
	j.Places.Joined()
	j.Signal.Joined(nil) // which has the requests read again
	now := j.loop.Now()
	for _, slot := range slices.Sorted(maps.Keys(j.nodes.bySlot)) {
		n := j.nodes.bySlot[slot]
		n.known = false
		j.nodes.agenda.Wake(n)
		if n.own != nil && n.mayBeLost(now) {
			n.own.loaded = false
			j.load(slot, n.own)
		}
		j.advance(n)
	}
}

// Sync reads the nodes that are due to be read although no watch has fired.
func (j *Journal) Sync() {
	now, clock, nodes := j.loop.Now(), j.member.Clock, &j.nodes
	if leaps := clock.Leaps(); leaps != nodes.leaps {
		nodes.leaps = leaps
		nodes.agenda.WakeAll()
	}
	nodes.agenda.Take(now)
	nodes.agenda.Due(func(n *node) {
		if n.own != nil {
			if !n.busy && n.isDatedAhead(clock) {
				n.known, n.own.loaded, n.own.dated = false, false, true // a watcher corrects that
			}
			j.load(n.slot, n.own)
			if now >= n.own.requests.nextLook {
				j.ReadRequests(n.slot)
			}
		}
		n.dropHistory(now)
		nodes.agenda.By(n, n.nextLook(clock))
	})
	j.Gates.retry()
}

// AdvanceAll continues with the waiting writes. Without a session it only refuses commits whose
// lease has lapsed.
func (j *Journal) AdvanceAll() {
	for _, slot := range slices.Sorted(maps.Keys(j.nodes.waiting)) {
		j.Advance(slot)
	}
}

// Advance continues with the waiting writes of a slot.
func (j *Journal) Advance(slot string) {
	if n := j.nodes.bySlot[slot]; n != nil {
		j.advance(n)
	}
}

// SpecChanged tells the runner that the spec of a job's slots has changed.
func (j *Journal) SpecChanged(job *catalog.Job) {
	for _, slot := range job.Slots {
		j.announce(slot)
	}
}

// Withhold stops runs of a job that this instance cannot run.
func (j *Journal) Withhold(job *catalog.Job, cause error) {
	for _, slot := range job.Slots {
		j.runner.Disown(slot, cause)
		j.Places.leave(slot)
	}
}

// load reads the record of an owned slot. The next sync tries again if it cannot be read.
func (j *Journal) load(slot string, own *owned) {
	if own.loaded || own.loading {
		return
	}
	own.loading = true
	was := j.nodes.bySlot[slot].version
	j.enqueue(slot, &write{kind: load, commit: noCommit, done: func(_ *zkrec.Tick, err error) {
		own.loading = false
		if err == nil && j.nodes.owned(slot) == own {
			own.loaded = true
			if changed := own.lost || own.dated && j.nodes.bySlot[slot].version != was; changed && own.told {
				j.runner.Disown(slot, errChanged) // it keeps the record that it has otherwise
			}
			own.lost, own.dated = false, false
			j.announce(slot)
		}
	}})
}

// announce tells the runner of an owned slot whose records are known.
func (j *Journal) announce(slot string) {
	own, job := j.nodes.owned(slot), j.catalog.JobOf(slot)
	if own == nil || own.Ownership != j.owner.Owned(slot) || !own.loaded || !own.requests.known ||
		job == nil || !job.Eligible {
		return
	}
	own.told = true
	j.nodes.bySlot[slot].tellStop(j)
	j.runner.Own(Ownership{
		Slot: slot, Job: job.Ticks, Spec: job.Spec, Lease: own.Lease, Since: own.Since, From: own.From, Origin: own.Origin,
		Record: j.nodes.bySlot[slot].record, Requests: own.requests.readable(), Gate: j.Gates.of(job, slot),
	})
}

// tellStop tells if a record leaves the job no tick, or pauses it.
func (n *node) tellStop(j *Journal) {
	job := j.catalog.JobOf(n.slot)
	if job != nil && job.Valid() && (job.Ticks.Spent(*n.record) || job.Ticks.Failing(*n.record)) {
		j.loop.Tell(Stops{n.slot, n.record})
	}
}

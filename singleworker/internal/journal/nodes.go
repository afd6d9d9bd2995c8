package journal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// node is one slot's tick and history nodes. Writes are made one after the other, each based on the
// versions that the previous one left. It lives as long as the slot is owned, there are writes, or
// a run is open.
type node struct {
	agenda.Entry

	slot  string
	own   *owned // nil unless this instance owns the slot
	busy  bool   // a request is under way
	known bool   // Stored is what the nodes hold, but for a history that was dropped
	Stored
	dropped bool          // the history: it is read again before it is written
	written time.Duration // Mono: when the history was
	ended   time.Duration // Mono: when this instance wrote the result of a run last; 0: it has not
	late    string        // the run whose Late node was there when Stored was read, or ""
	queue   []*write
	open    string               // the run that was claimed here and has no result yet
	freed   map[zkrec.Place]bool // of the record's places: they were found free
}

// historyKept is for how long a history is kept that is not written. It takes some 5 KB, and a slot
// that runs less often can read it again, in one request with the other slots whose runs end in the
// same moment.
const historyKept = 5 * time.Minute

// hasIdleHistory reports whether a history is kept that no write is waiting for. The end of each
// write has n looked at.
func (n *node) hasIdleHistory() bool { return n.known && len(n.queue) == 0 && !n.history.IsEmpty() }

// dropHistory forgets a history that has not been written for long.
func (n *node) dropHistory(now time.Duration) {
	if n.hasIdleHistory() && now-n.written > historyKept {
		n.history, n.dropped = zkrec.Log{}, true
	}
}

// write is one thing to do with a slot's nodes.
type write struct {
	kind   writeKind
	commit *ticks.Commit // empty unless kind is commit: thousands of loads may wait at the same time
	amend  *zkrec.Entry  // nil unless kind is amend
	// unguarded: the commit is a result whose ownership was found to be over.
	unguarded bool
	// requestStays: the request that the commit should remove is gone, or cannot be removed.
	requestStays bool
	since        time.Duration // Elapsed: when it was queued
	done         answer
}

var noCommit = new(ticks.Commit)

// answer is told the outcome of a write, on the loop, or by anybody when that has ended.
type answer = func(current *zkrec.Tick, err error)

type writeKind int

const (
	load writeKind = iota
	commit
	amend
	recall // the history is to be read
)

// isClaim reports whether w may be written by the slot's owner alone.
func (w *write) isClaim() bool { return w.kind == commit && w.commit.Token != 0 }

// needsHistory reports whether w is based on the history, or asks for it.
func (w *write) needsHistory() bool {
	return w.kind == amend || w.kind == recall || len(w.commit.Plan.Entries) > 0
}

// isResult reports whether w is the result of a run, or of its BeforeTick, which its runner may
// write without the slot.
func (w *write) isResult() bool { return w.kind == commit && w.commit.Token == 0 }

// isTooEarly reports whether w raises the watermark to a tick that is ahead of ZooKeeper's time.
func (w *write) isTooEarly(clock *member.Clock) bool {
	to := w.commit.Plan.Record.Watermark
	return w.isClaim() && to > w.commit.From.Watermark && clock.TooEarly(time.UnixMilli(to))
}

// isOutdated reports whether w is based on a spec that is known to be replaced. The job is nil if
// it is not known.
func (w *write) isOutdated(job *catalog.Job) bool {
	return w.isClaim() && job != nil && job.Version != w.commit.Version
}

// opens reports whether w is the claim of a run.
func (w *write) opens() bool { return w.isClaim() && w.commit.Opens() }

// isWithheld reports whether w opens a run that may not begin here, as far as orders and drains go,
// also while the others do not know of them yet. The job is nil if it is not known.
func (w *write) isWithheld(m *member.Member, job *catalog.Job) bool {
	return w.opens() && (m.State() != zkrec.InstanceActive || job != nil && m.Place.MayRun(&job.Spec.Job) != nil)
}

// lane is where w waits: a run waits for its claim, and shards wait for the first one's BeforeTick,
// but nothing waits for the rest.
func (w *write) lane() session.Lane {
	switch {
	case w.kind != commit:
	case w.opens() && len(w.commit.Limits) > 0:
		return session.Limited
	case w.commit.Opens() || w.isResult() && w.commit.Plan.Record.Open():
		return session.Claims
	}
	return session.Others
}

// Commit writes decisions, in as few transactions as they fit, and calls done for each, with its
// index and the record as it is then, when ZooKeeper has answered; a claim waits no longer than a
// lease lasts. When one fails, nothing was written: ticks.ErrConflict, with the record, is returned
// when that is not From; ticks.ErrNoRequest when the manual run that it opens was canceled;
// ticks.ErrLimited when there is no place for the run that it opens, see [Runner].Room;
// ticks.ErrSpecChanged when the job's spec or switch has another version; owner.ErrNotOwner,
// owner.ErrNotLeader, ErrDraining, ErrTooEarly, session.ErrEnded or leases.ErrLost otherwise. Only
// with ErrWithheld was it written: a drain has begun before ZooKeeper had answered, or was ordered
// before the claim. From a claim that opens a run until a commit that closes it, or fails to, the
// slot is busy: it is not handed over. Commit may be called by anybody and does not block; done
// must not, either. The slice and the decisions are the journal's from then on.
func (j *Journal) Commit(all []*ticks.Commit, done func(i int, current *zkrec.Tick, err error)) {
	j.loop.PostOr(func() {
		for i, c := range all {
			c.Plan.Record = c.Plan.Record.Normal()
			j.enqueue(c.Slot, &write{kind: commit, commit: c, done: func(current *zkrec.Tick, err error) { done(i, current, err) }})
		}
	}, func() {
		for i := range all {
			done(i, nil, session.ErrEnded)
		}
	})
}

// Amend replaces the history's entry of a run that was given up before its result came. The error
// is ticks.ErrSuperseded when the history no longer has the run. Amend is otherwise like Commit.
func (j *Journal) Amend(slot string, e zkrec.Entry, done func(err error)) {
	w := &write{kind: amend, commit: noCommit, amend: &e, done: func(_ *zkrec.Tick, err error) { done(err) }}
	w.post(j, slot)
}

// History calls done with the entries of a slot's history, the oldest first. It asks ZooKeeper only
// if they are not known. It is otherwise like Commit.
func (j *Journal) History(slot string, done func(entries []zkrec.Entry, err error)) {
	w := &write{kind: recall, commit: noCommit}
	w.done = func(_ *zkrec.Tick, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(j.nodes.bySlot[slot].history.History().Entries, nil)
	}
	w.post(j, slot)
}

// post queues w for a slot.
func (w *write) post(j *Journal, slot string) {
	j.loop.PostOr(func() { j.enqueue(slot, w) }, func() { w.done(nil, session.ErrEnded) })
}

// Ended answers the writes that the end of the loop has left.
func (j *Journal) Ended() {
	for _, n := range j.nodes.bySlot {
		queue := n.queue
		n.queue = nil
		for _, w := range queue {
			w.done(nil, session.ErrEnded)
		}
	}
}

func (j *Journal) enqueue(slot string, w *write) {
	n := j.nodes.of(slot)
	w.since = j.loop.Clock.Now().Elapsed
	n.queue = append(n.queue, w)
	j.tellBusy(n)
	j.advance(n)
}

// tellBusy keeps the slot from being handed over while its record is being changed or its run is
// open.
func (j *Journal) tellBusy(n *node) {
	j.nodes.queued(n)
	busy := n.open != "" || len(n.queue) > 0
	if n.own != nil {
		if n.own.busy == busy {
			return
		}
		n.own.busy = busy
	}
	j.owner.SetBusy(n.slot, busy)
}

// advance does the next thing in n's queue, if it can be done now.
func (j *Journal) advance(n *node) {
	for len(n.queue) > 0 && !n.busy {
		w := n.queue[0]
		guard, err := j.guard(n, w)
		if err != nil {
			j.finish(n, w, err)
			continue
		}
		late := w.late(guard)
		switch {
		case !j.loop.Joined():
			return // continued when joined again
		case w.isClaim() && !j.owner.Sessions.Confirm(n.slot):
			return // continued when that is told
		case !n.known, n.late != late, n.dropped && w.needsHistory():
			j.fetch(n, late)
			return
		case w.opens() && n.record.Same(w.commit.Plan.Record): // its answer was lost
			n.busy = true
			j.owner.Pulse.Renew(n.slot, guard, func() {
				j.member.Roster.Ordered(func() {
					n.busy = false
					j.finish(n, w, nil)
					j.advance(n)
				})
			})
			return
		case w.kind == load, w.kind == recall, w.kind == commit && n.record.Same(w.commit.Plan.Record):
			j.finish(n, w, nil) // likewise, if it is a commit
		case w.kind == amend && n.history.Says(*w.amend):
			j.finish(n, w, nil) // likewise: other ticks were recorded before it was read again
		case w.kind == commit && !n.record.Same(w.commit.From):
			j.finish(n, w, ticks.ErrConflict)
		case w.isWithheld(j.member, j.catalog.JobOf(n.slot)):
			j.finish(n, w, ErrDraining) // the next owner runs it, in a moment
		case w.isTooEarly(j.member.Clock):
			j.finish(n, w, ErrTooEarly) // another instance runs it when it is due
		case w.isOutdated(j.catalog.JobOf(n.slot)):
			j.finish(n, w, ticks.ErrSpecChanged)
		case w.lacksPlaces() && !j.Places.ready(n.slot, w.commit.Limits):
			return // continued when they are
		case w.lacksPlaces() && !j.Places.take(n.slot, w.commit):
			j.finish(n, w, ticks.ErrLimited)
		default:
			j.send(n, w, guard)
			return
		}
	}
	if len(n.queue) == 0 && !n.busy && n.open == "" && j.owner.Owned(n.slot) == nil {
		j.nodes.drop(n)
	}
}

// guard is the checks of the slot's ownership in w, or why it cannot be written any more. A result
// needs none; but while its run's ownership is believed to last, the guard tells the run's job from
// one that was submitted again. After that, the Late node does.
func (j *Journal) guard(n *node, w *write) (owner.Guard, error) {
	switch {
	case w.isClaim() && j.loop.Clock.Now().Elapsed-w.since >= lease.Length(j.loop.Conn.SessionTimeout()):
		return owner.Guard{}, leases.ErrLost // what it was decided by is too long ago
	case w.isClaim():
		proofs, known := j.Gates.proofs.of(w.commit.Version.Named)
		isOld := w.commit.Gate != nil && w.commit.Gate.Attempt < j.loop.Attempt()
		if (isOld || !known) && w.commit.Plan.Record.Watermark > w.commit.From.Watermark { // it decides about further ticks
			return owner.Guard{}, ticks.ErrSpecChanged // the runner decides again soon
		}
		return j.owner.GuardClaim(n.slot, w.commit.Token, w.commit.Version, w.opens(), proofs...)
	case w.isResult() && !w.unguarded:
		guard, _ := j.owner.Guard(n.slot, w.commit.From.Token)
		return guard, nil
	}
	return owner.Guard{}, nil
}

// finish reports w and takes it off the queue.
func (j *Journal) finish(n *node, w *write, err error) {
	if n.queue = slices.Delete(n.queue, 0, 1); len(n.queue) == 0 {
		n.queue = nil // a node of an idle slot keeps nothing of its writes
	}
	if n.late != "" {
		dropLate(j.loop, n.slot, n.late)
		n.late = ""
	}
	if w.opens() && w.commit.Plan.Record.Places != "" {
		j.Places.settled(w.commit.Plan.Record.Places, err)
	}
	switch {
	case w.isClaim() && w.commit.Plan.Record.Open() && err == nil:
		n.open = w.commit.Plan.Record.RunID
		if backfill := w.commit.Plan.Backfill; backfill != nil && n.own != nil {
			n.own.requests.take(backfill)
			j.ReadRequests(n.slot)
		}
		if w.isWithheld(j.member, j.catalog.JobOf(n.slot)) {
			err = ticks.ErrWithheld
		}
		n.tellStop(j)
	case w.isResult() && !w.commit.Plan.Record.Open() && !errors.Is(err, ticks.ErrConflict), w.kind == amend:
		n.open = "" // its run has a result, or can have none
		n.tellStop(j)
	}
	w.done(n.record, err)
	j.tellBusy(n)
}

// fetch reads the nodes, and creates the Late node of a run, if one is given, before that.
func (j *Journal) fetch(n *node, late string) {
	n.busy = true
	f := fetching{j, n, late, j.owner.Owned(n.slot)}
	if late == "" {
		f.read()
		return
	}
	j.loop.Async("create late node", func(ctx context.Context) func() {
		if err := createLate(ctx, j.loop, n.slot, late); err != nil {
			return func() { f.done(Stored{}, err) }
		}
		return f.read
	})
}

// fetching is one reading of a slot's nodes.
type fetching struct {
	*Journal

	n      *node
	late   string
	before *owner.Ownership // when it began
}

func (f fetching) read() {
	tree := f.loop.Tree
	f.loop.Read(zkconn.ReadsOf(tree.Tick(f.n.slot), tree.History(f.n.slot)), func(results []zkconn.ReadResult) {
		var s Stored
		err := s.setTick(tree.Tick(f.n.slot), results[0].Data, results[0].Stat, results[0].Err)
		switch {
		case err != nil:
			f.done(s, err)
		case results[1].Stat.NumChildren == 0:
			f.done(s, s.setHistory(tree.History(f.n.slot), results[1:]))
		default:
			f.readPages(s, results[1])
		}
	})
}

// readPages reads the pages after the first, which most histories have. A change moves the tick
// record on, too, so it does not matter if they are of another moment: the versions decide.
func (f fetching) readPages(s Stored, first zkconn.ReadResult) {
	f.loop.Read(zkconn.ReadsOf(f.loop.Tree.HistoryPages(f.n.slot)[1:]...), func(results []zkconn.ReadResult) {
		path := f.loop.Tree.History(f.n.slot)
		f.done(s, s.setHistory(path, append([]zkconn.ReadResult{first}, results...)))
	})
}

// done takes in the records, or why they were not read.
func (f fetching) done(s Stored, err error) {
	n := f.n
	n.busy = false
	f.catalog.Report(n.slot, err, f.loop.Tree.Tick(n.slot), f.loop.Tree.History(n.slot))
	switch {
	case f.before != f.owner.Owned(n.slot): // read again: see Lost
	case zkconn.IsUnknown(err):
		return // continued by the next session, or the next sync
	case errors.Is(err, zkconn.ErrNoNode):
		f.missing()
		return
	case err != nil:
		f.finish(n, n.queue[0], err) // the runner, or the next sync, tries again
	default:
		f.findLost(s)
		n.known, n.Stored, n.late, n.dropped, n.written = true, s, f.late, false, f.loop.Now()
	}
	f.advance(n)
}

// missing: the job was made by the published sample, or an older version, and lacks a node; or it
// was deleted, which the protocol is about to find out.
func (f fetching) missing() {
	if f.owner.Owned(f.n.slot) == nil {
		f.finish(f.n, f.n.queue[0], owner.ErrCanceled)
		f.advance(f.n)
		return
	}
	f.owner.Look(f.n.slot)
	f.catalog.Repair(f.n.slot) // n continues when that is told
}

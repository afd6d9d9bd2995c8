package journal

import (
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// change is the transaction of one write: first the guard's operations, then these.
type change struct {
	Stored // as it will be
	guard  owner.Guard
	ops    []zkconn.Op
	// Indices of single operations, or -1.
	requestAt int // checks that a request still exists, or takes the next tick off a backfill
	takenAt   int // creates the request for that tick
	recordAt  int // sets the tick node
	pagesAt   int // sets, or creates, the first of the pages of the history that were changed
	removeAt  int // deletes a request
	placesAt  int // deletes, or creates, the first of the places that the run gives back, or takes
	places    []placeChange
}

// placeChange is an operation about a place.
type placeChange struct {
	zkrec.Place

	taken bool // else it is given back
}

// beside is how many operations a transaction rarely exceeds, not counting its guard.
const beside = 3

func (ch *change) add(op zkconn.Op) int {
	ch.ops = append(ch.ops, op)
	return len(ch.ops) - 1
}

// tick sets the tick node to a record that says where the history is.
func (ch *change) tick(j *Journal, n *node, record *zkrec.Tick, mark zkrec.Mark) {
	record.History = mark
	ch.record = record
	ch.recordAt = ch.add(zkconn.SetOp(j.loop.Tree.Tick(n.slot), record.Encode(), n.version))
	if ch.placesAt = len(ch.ops); n.record.Places == record.Places {
		return
	}
	for _, place := range n.record.Places.Without(record.Places) {
		if !n.freed[place] {
			ch.add(zkconn.DeleteOp(j.loop.Tree.HeldPlace(place), zkconn.AnyVersion))
			ch.places = append(ch.places, placeChange{place, false})
		}
	}
	for _, place := range record.Places.Without(n.record.Places) {
		ch.add(zkconn.CreateOp(j.loop.Tree.HeldPlace(place), []byte(n.slot)))
		ch.places = append(ch.places, placeChange{place, true})
	}
}

// placeAt is the change of a place that an operation makes.
func (ch *change) placeAt(index int) (is placeChange, ok bool) {
	if i := index - ch.placesAt; ch.recordAt >= 0 && i >= 0 && i < len(ch.places) {
		return ch.places[i], true
	}
	return is, false
}

// log sets the tick node, and writes the pages of ch's history that have changed.
func (ch *change) log(j *Journal, n *node, record *zkrec.Tick) {
	ch.tick(j, n, record, ch.history.Mark())
	ch.pagesAt = len(ch.ops)
	for _, page := range ch.history.Changed() {
		path, data := j.loop.Tree.HistoryPage(n.slot, page), ch.history.Encode(page)
		if version := n.pages[page]; version != absent {
			ch.add(zkconn.SetOp(path, data, version))
		} else {
			ch.add(zkconn.CreateOp(path, data))
		}
	}
}

// prepare builds the transaction of w. It is nil if w amends an entry that the history no longer
// has.
func (j *Journal) prepare(n *node, w *write, guard owner.Guard) *change {
	tree := j.loop.Tree
	ch := &change{Stored: n.Stored, guard: guard, requestAt: -1, takenAt: -1, recordAt: -1, pagesAt: -1, removeAt: -1}
	ch.ops = append(make([]zkconn.Op, 0, len(guard.Ops)+beside), guard.Ops...)
	if n.late != "" {
		ch.add(zkconn.DeleteOp(tree.Late(n.slot, n.late), zkconn.AnyVersion))
	}
	if w.kind == amend {
		var ok bool
		if ch.history, ok = n.history.Amend(*w.amend); !ok {
			return nil
		}
		if by, found := n.history.Found(w.amend.RunID); found && w.amend.State != history.StateOK {
			j.loop.Log.Warn("late result of a run whose effects were found: they disagree", "job", n.slot, "run_id", w.amend.RunID,
				"state", w.amend.State, "found_by", by.SID, "err", w.amend.Error)
		}
		record := *n.record // which those who follow the slot watch
		ch.log(j, n, &record)
		return ch
	}
	plan := w.commit.Plan
	switch {
	case plan.Backfill != nil:
		next, rest := plan.Backfill.Next()
		path, version := tree.Request(n.slot, rest.ID), plan.Backfill.Version
		ch.takenAt = ch.add(zkconn.CreateOp(tree.Request(n.slot, next.ID), next.Encode()))
		if len(rest.Backfill.Rows) > 0 {
			ch.requestAt = ch.add(zkconn.SetOp(path, rest.Encode(), version))
		} else {
			ch.requestAt = ch.add(zkconn.DeleteOp(path, version))
		}
	case w.commit.Opens() && plan.Record.Manual != "":
		// The list of requests may be old: one that was canceled no longer exists.
		ch.requestAt = ch.add(zkconn.CheckOp(tree.Request(n.slot, plan.Record.Manual), zkconn.AnyVersion))
	}
	record := plan.Record // not a part of the commit, which would be kept with it
	if len(plan.Entries) > 0 {
		ch.history = n.history.Add(j.keep, w.commit.From.Watermark, plan.Entries...)
		ch.log(j, n, &record)
	} else {
		ch.tick(j, n, &record, n.record.History)
	}
	if plan.Request != "" && !w.requestStays {
		ch.removeAt = ch.add(zkconn.DeleteOp(tree.Request(n.slot, plan.Request), zkconn.AnyVersion))
	}
	return ch
}

// send writes w, together with the other writes of this turn.
func (j *Journal) send(n *node, w *write, guard owner.Guard) {
	ch := j.prepare(n, w, guard)
	if ch == nil {
		j.finish(n, w, ticks.ErrSuperseded)
		j.advance(n)
		return
	}
	n.busy = true
	answered := func(r session.Result) {
		n.busy = false
		if r.Err == nil {
			n.late = "" // deleted with it
			j.written(n, w, ch, r)
		} else {
			j.refused(n, w, ch, r)
		}
		j.advance(n)
	}
	if w.opens() {
		j.owner.Pulse.Claiming(n.slot)
	}
	j.loop.Write(w.lane(), ch.ops, func(r session.Result) {
		if w.opens() {
			j.owner.Pulse.Claimed(n.slot, r)
		}
		if r.Err == nil && w.opens() { // what was ordered before it keeps the run from beginning
			j.member.Roster.Ordered(func() { answered(r) })
		} else {
			answered(r)
		}
	})
}

func (j *Journal) written(n *node, w *write, ch *change, r session.Result) {
	if ch.recordAt >= 0 {
		ch.version = r.Stats[ch.recordAt].Version
	}
	if ch.pagesAt >= 0 {
		for i, page := range ch.history.Changed() {
			ch.pages[page] = r.Stats[ch.pagesAt+i].Version
		}
		n.written = j.loop.Now()
	}
	if w.isResult() && !ch.record.Open() {
		n.ended = j.loop.Now()
	}
	n.Stored, n.freed = ch.Stored, nil
	j.Places.given(ch.places)
	if w.kind == commit && w.commit.Opens() {
		from := w.commit.From
		run, job := ch.record.Run, j.catalog.JobOf(n.slot)
		if ch.record.Prompt() && run.Token == from.Token && run.Tick >= from.Started && job != nil && job.Valid() {
			j.loop.Tell(Claimed{j.loop.Clock.Wall().Sub(job.Ticks.Of(n.slot, nil).Due(time.UnixMilli(run.Tick)))})
		}
	}
	j.requestDone(n.slot, w.commit.Plan.Request)
	j.finish(n, w, nil)
}

// isConflict reports whether a node is not as it was known to be.
func isConflict(err error) bool {
	return errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) || errors.Is(err, zkconn.ErrNodeExists)
}

// refused deals with a write that was not made, or of which that is not known.
func (j *Journal) refused(n *node, w *write, ch *change, r session.Result) {
	place, isPlace := ch.placeAt(r.Refused)
	switch reason := ch.guard.Refused(r.Refused, r.Err); {
	case errors.Is(reason, owner.ErrNotOwner) && w.isResult():
		j.owner.Look(n.slot)
		w.unguarded, n.known = true, false // the record tells whether it is the run's
	case errors.Is(reason, owner.ErrNotOwner):
		j.owner.Look(n.slot) // another instance owns the job, or it is gone
		j.finish(n, w, reason)
	case errors.Is(reason, ticks.ErrSpecChanged):
		j.finish(n, w, reason)
		if job := j.catalog.JobOf(n.slot); job != nil {
			j.catalog.Named.Outdated(job)
			j.Gates.proofs.lost(ch.ops[r.Refused].Path())
		}
	case reason != nil:
		j.finish(n, w, reason)
	case r.Refused >= 0 && r.Refused == ch.requestAt && w.commit.Plan.Backfill != nil && isConflict(r.Err):
		if n.own != nil {
			n.own.requests.remove(w.commit.Plan.Backfill.ID) // somebody has stopped it, or taken its next tick
			j.ReadRequests(n.slot)
		}
		j.finish(n, w, ticks.ErrNoRequest)
	case r.Refused >= 0 && r.Refused == ch.takenAt && errors.Is(r.Err, zkconn.ErrNodeExists):
		j.loop.Log.Warn("backfill ignored: somebody has made the request for its next tick: delete that", "job", n.slot,
			"path", j.loop.Tree.Request(n.slot, w.commit.Plan.Record.Manual))
		j.requestDone(n.slot, w.commit.Plan.Backfill.ID)
		j.finish(n, w, ticks.ErrNoRequest)
	case r.Refused >= 0 && r.Refused == ch.requestAt && errors.Is(r.Err, zkconn.ErrNoNode):
		j.requestDone(n.slot, w.commit.Plan.Record.Manual)
		j.finish(n, w, ticks.ErrNoRequest)
	case r.Refused >= 0 && r.Refused == ch.removeAt:
		w.requestStays = true
		if !errors.Is(r.Err, zkconn.ErrNoNode) { // otherwise an operator canceled it
			j.loop.Log.Warn("request is done but cannot be removed: remove it, or the next owner runs it again",
				"job", n.slot, "request", w.commit.Plan.Request, "err", r.Err)
		}
	case isPlace && place.taken && isConflict(r.Err):
		j.Places.settled(w.commit.Plan.Record.Places, ticks.ErrLimited)
		w.commit.Plan.Record.Places = "" // others are chosen, or the slot waits
	case isPlace && !place.taken && errors.Is(r.Err, zkconn.ErrNoNode):
		j.loop.Log.Warn("place of a limit was free already, although a run held it: somebody has deleted its node", "job", n.slot,
			"path", j.loop.Tree.HeldPlace(place.Place))
		if n.freed == nil {
			n.freed = make(map[zkrec.Place]bool)
		}
		n.freed[place.Place] = true
	case zkconn.IsUnknown(r.Err), r.Refused >= 0 && isConflict(r.Err):
		// A node is not as it was known to be, or the write may have been made: read again.
		n.known = false
	default:
		j.finish(n, w, r.Err)
	}
}

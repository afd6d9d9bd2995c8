package coord

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// role is what an operation of a transaction is there for: which one is
// refused says what is wrong.
type role int

const (
	guardsOwner role = iota
	guardsSpec
	guardsLeader
	guardsRequest
	changesRecord
	endsRequest
)

// change is the transaction of one tickWrite.
type change struct {
	stored // as it will be
	ops    []zkconn.Op
	roles  []role
	record int // index of the operation that sets the tick node, or -1
	hist   int // of the one that sets the history node, or -1
}

func (ch *change) add(r role, op zkconn.Op) int {
	ch.ops, ch.roles = append(ch.ops, op), append(ch.roles, r)
	return len(ch.ops) - 1
}

// prepare builds the transaction of w.
func (c *Coordinator) prepare(t *tickNode, w *tickWrite) *change {
	ch := &change{stored: t.stored, record: -1, hist: -1}
	if w.kind == writeAmend {
		ch.history, _ = t.history.Amend(w.amend) // send has seen that it is there
		ch.hist = ch.add(changesRecord, zkconn.SetOp(c.tree.History(t.slot), ch.history.Encode(), t.historyVersion))
		return ch
	}
	cm := w.commit
	if own := c.guard(t, w); own != nil {
		// The version says that the record still is ours, our heartbeat that it
		// is the same job: one deleted and submitted again counts from 0.
		ch.add(guardsOwner, zkconn.CheckOp(c.tree.Alive(t.slot), own.version))
		ch.add(guardsOwner, zkconn.CheckOp(c.tree.Heartbeat(t.slot, c.cfg.SID), zkconn.AnyVersion))
	}
	if cm.Token != 0 {
		// What is decided under one spec must not be done under the next: so a tick
		// has one number of shards, and a job that was paused begins no run.
		ch.add(guardsSpec, zkconn.CheckOp(c.tree.Job(zkrec.JobOfSlot(t.slot)), cm.SpecVersion))
	}
	if c.latch.node != "" && cm.Token != 0 {
		ch.add(guardsLeader, zkconn.CheckOp(c.latch.node, zkconn.AnyVersion))
	}
	if cm.To.Open() && cm.To.Manual != "" && cm.To.RunID != cm.From.RunID {
		// What we know of requests may be old: one that is done with is gone.
		ch.add(guardsRequest, zkconn.CheckOp(c.tree.Request(t.slot, cm.To.Manual), zkconn.AnyVersion))
	}
	ch.stored.record = cm.To
	ch.record = ch.add(changesRecord, zkconn.SetOp(c.tree.Tick(t.slot), cm.To.Encode(), t.version))
	if len(cm.Entries) > 0 {
		ch.history = t.history.Add(cm.From.Watermark, cm.Entries...)
		ch.hist = ch.add(changesRecord, zkconn.SetOp(c.tree.History(t.slot), ch.history.Encode(), t.historyVersion))
	}
	if cm.Request != "" && !w.requestStays {
		ch.add(endsRequest, zkconn.DeleteOp(c.tree.Request(t.slot, cm.Request), zkconn.AnyVersion))
	}
	return ch
}

// guard is the ownership that w is to be refused without. A result needs none;
// but as long as its run's is believed to last, it tells the run's job from one
// that was submitted anew.
func (c *Coordinator) guard(t *tickNode, w *tickWrite) *ownership {
	own := c.owned[t.slot]
	if w.commit.Token == 0 && (w.unguarded || own == nil || own.token != w.commit.From.Token) {
		return nil
	}
	return own
}

// send writes w with the others that are due together.
func (c *Coordinator) send(t *tickNode, w *tickWrite) {
	if w.kind == writeAmend {
		if _, ok := t.history.Amend(w.amend); !ok {
			c.finish(t, w, ErrSuperseded)
			c.advance(t)
			return
		}
	}
	t.busy = true
	ch := c.prepare(t, w)
	c.commits = append(c.commits, &commit{ops: ch.ops, done: func(r result) { c.committed(t, w, ch, r) }})
}

func (c *Coordinator) committed(t *tickNode, w *tickWrite, ch *change, r result) {
	t.busy = false
	refused := changesRecord
	if r.refused >= 0 {
		refused = ch.roles[r.refused]
	}
	switch {
	case r.err == nil:
		if ch.record >= 0 {
			ch.version = r.stats[ch.record].Version
		}
		if ch.hist >= 0 {
			ch.historyVersion = r.stats[ch.hist].Version
		}
		t.stored = ch.stored
		c.requestDone(t.slot, w.commit.Request)
		c.finish(t, w, nil)
	case refused == guardsOwner:
		// Somebody else owns the job, or it is gone.
		c.step(lease.Look{Slot: lease.Slot(t.slot)})
		if w.commit.Token == 0 {
			w.unguarded, t.known = true, false // the record tells whether it is the run's
			break
		}
		c.finish(t, w, ErrNotOwner)
	case refused == guardsSpec && errors.Is(r.err, zkconn.ErrBadVersion):
		c.finish(t, w, ErrSpecChanged)
		if j := c.jobOf(t.slot); j != nil {
			c.refresh(j)
		}
	case refused == guardsLeader:
		c.finish(t, w, ErrNotLeader) // the election is about to say so, too
	case refused == guardsRequest && errors.Is(r.err, zkconn.ErrNoNode):
		c.requestDone(t.slot, w.commit.To.Manual)
		c.finish(t, w, ErrNoRequest)
	case refused == endsRequest:
		w.requestStays = true
		if !errors.Is(r.err, zkconn.ErrNoNode) { // else a hand was faster
			c.log.Warn("request is done and cannot be removed: remove it, or the next owner does it again",
				"job", t.slot, "request", w.commit.Request, "err", r.err)
		}
	case zkconn.IsUnknown(r.err), errors.Is(r.err, zkconn.ErrBadVersion), errors.Is(r.err, zkconn.ErrNoNode):
		// A node is not as we knew it, or we do not know whether we changed it:
		// read them again.
		t.known = false
	default:
		c.finish(t, w, r.err)
	}
	c.advance(t)
}

// sendCommits sends what has come together in one turn of the loop.
func (c *Coordinator) sendCommits() {
	if len(c.commits) == 0 {
		return
	}
	commits := c.commits
	c.commits = nil
	groups := make([][]zkconn.Op, len(commits))
	for i, cm := range commits {
		groups[i] = cm.ops
	}
	c.applyBatches(groups, func(i int, r result) { commits[i].done(r) })
}

package sim

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Groups in latch mode: one instance leads and owns everything.

// place is a node of the queue of the election.
type place struct {
	path, sid string
	session   int64
}

// queue is the election's queue, as the log has it: the first one leads.
type queue struct {
	places  []place
	deposed map[place]time.Time // those that have led, without their paths: until when
}

// apply reads one transaction. The nodes of a session that ends are deleted in the log.
func (q *queue) apply(txn *zkdev.Txn, leader string) {
	if txn.Code != zkdev.OK || path.Dir(txn.Path) != leader {
		return
	}
	q.led(txn.Time)
	switch txn.Op {
	case zkdev.OpCreate, zkdev.OpCreate2:
		q.places = append(q.places, place{txn.Path, string(txn.Data), txn.Session})
	case zkdev.OpDelete:
		q.places = slices.DeleteFunc(q.places, func(p place) bool { return p.path == txn.Path })
	default:
	}
}

// led notes that the first one has led until then.
func (q *queue) led(until time.Time) {
	if len(q.places) == 0 {
		return
	}
	if q.deposed == nil {
		q.deposed = make(map[place]time.Time)
	}
	first := q.places[0]
	q.deposed[place{sid: first.sid, session: first.session}] = until
}

// leader is the id of the instance that leads now, or "".
func (w *world) leader() string {
	if !w.Latch {
		return ""
	}
	w.ledger.read(w.cluster.Server.LogAfter(w.ledger.through))
	if len(w.ledger.queue.places) == 0 {
		return ""
	}
	return w.ledger.queue.places[0].sid
}

// checkLeads verifies that a claim of a group in latch mode is its leader's.
func (l *ledger) checkLeads(slot string, txn *zkdev.Txn, rec zkrec.Tick) {
	switch {
	case !l.latch:
	case len(l.queue.places) == 0:
		l.violatef(11, slot, txn.Time, "%s claims %s, and no instance leads", rec.SID, clockMs(rec.Tick))
	case l.queue.places[0].session != txn.Session:
		l.violatef(11, slot, txn.Time, "%s claims %s, and %s leads", rec.SID, clockMs(rec.Tick), l.queue.places[0].sid)
	}
}

// unheard is for how long at most an instance whose session lives may not have heard that it no
// longer leads: two sessions.
const unheard = 20 * time.Second

// mayLead reports whether an instance leads, or led a moment ago and may not have heard of its end:
// in that session, or, if that is 0, in any.
func (q *queue) mayLead(sid string, session int64, now time.Time) bool {
	is := func(p place) bool { return p.sid == sid && (session == 0 || p.session == session) }
	if len(q.places) > 0 && is(q.places[0]) {
		return true
	}
	for p, until := range q.deposed {
		if is(p) && now.Sub(until) <= unheard {
			return true
		}
	}
	return false
}

// checkSaysLeads verifies that the record of an instance says that it leads only if it does.
func (l *ledger) checkSaysLeads(sid string, txn *zkdev.Txn) {
	record, err := zkrec.ParseInstance(txn.Data)
	if l.latch && txn.Code == zkdev.OK && err == nil && !record.Closed() && !l.queue.mayLead(sid, txn.Session, txn.Time) {
		l.violatef(11, "", txn.Time, "%s says that it leads, in session %#x, in which it does not", sid, txn.Session)
	}
}

// checkOffer verifies that a slot of a group in latch mode is offered to its leader alone.
func (l *ledger) checkOffer(slot string, txn *zkdev.Txn) {
	record, err := zkrec.ParseOwner(txn.Data)
	if l.latch && err == nil && record.Offer != "" && !l.queue.mayLead(record.Offer, 0, txn.Time) {
		l.violatef(11, slot, txn.Time, "the slot is offered to %s, which does not lead", record.Offer)
	}
}

// depose deletes the node with which an instance leads, or stands in the queue.
func (w *world) depose() {
	leader := w.leader()
	if !w.Latch || !w.Forced || leader == "" {
		return
	}
	node := w.ledger.queue.places[0].path
	w.notef("someone deletes the node with which %s leads", leader)
	if err := w.cluster.Delete(context.Background(), node); err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		w.violate(violation{7, leader, time.Now(), err.Error()})
	}
}

// isLeader reports whether an instance may own something as far as latch mode is concerned.
func (w *world) isLeader(i *swtest.Instance) bool { return !w.Latch || w.leader() == i.Name }

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

// queue is that of the election, as the log has it: the first one leads.
type queue struct{ places []place }

// apply reads one transaction. The nodes of a session that ends are deleted in the log.
func (q *queue) apply(txn *zkdev.Txn, leader string) {
	if txn.Code != zkdev.OK || path.Dir(txn.Path) != leader {
		return
	}
	switch txn.Op {
	case zkdev.OpCreate, zkdev.OpCreate2:
		q.places = append(q.places, place{txn.Path, string(txn.Data), txn.Session})
	case zkdev.OpDelete:
		q.places = slices.DeleteFunc(q.places, func(p place) bool { return p.path == txn.Path })
	default:
	}
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

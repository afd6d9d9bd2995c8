package sim

import (
	"path"
	"slices"
	"strings"
	"time"

	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// untold is a change of which its transaction has not told those who must look, by setting a node.
type untold struct {
	slot, path string
	txn        *zkdev.Txn
}

// tells takes in an operation of a transaction. The signal of a change is in the same transaction,
// after it.
func (l *ledger) tells(slot, node, rest string, txn *zkdev.Txn) {
	if len(l.untold) > 0 && l.untold[0].txn.Zxid != txn.Zxid {
		l.wantTold()
	}
	l.hearers(txn)
	switch {
	case node == rules.NodeRequests && rest != "":
		l.asks(slot, txn)
	case txn.Op == zkdev.OpSetData && slices.ContainsFunc(l.untold, func(u untold) bool { return u.path == txn.Path }):
		l.untold = slices.DeleteFunc(l.untold, func(u untold) bool { return u.path == txn.Path })
	case txn.Op != zkdev.OpSetData && txn.Op != zkdev.OpDelete, !zkrec.IsJob(slot), node != rules.NodeJob, rest != "":
	default:
		l.untold = append(l.untold, untold{slot, l.tree.Signal(zkrec.SignalOf(slot)), txn})
	}
}

// knows is since when, at least, who asks an owner for something knows that it is the owner, and
// where it hears of that.
const knows = 30 * time.Second

// asks takes in a request: it is told to the owner, if that has been the owner for some time, has
// been listening, and has not made it itself, for the next tick of a backfill.
func (l *ledger) asks(slot string, txn *zkdev.Txn) {
	j, r := l.model.Jobs[slot], l.current(slot)
	if txn.Op != zkdev.OpCreate || j == nil || r == nil || txn.Time.Sub(r.at) < knows || l.joined[txn.Session] == j.Owner.SID {
		return
	}
	path := l.tree.AskedOf(j.Owner.Incarnation)
	if since, listens := l.listening[path]; listens && txn.Time.Sub(since) >= knows {
		l.untold = append(l.untold, untold{slot, path, txn})
	}
}

// hearers follows which incarnations listen to requests.
func (l *ledger) hearers(txn *zkdev.Txn) {
	switch {
	case path.Dir(txn.Path) != l.tree.Asked():
	case txn.Op == zkdev.OpDelete:
		delete(l.listening, txn.Path)
	case txn.Op != zkdev.OpSetData:
		l.listening[txn.Path] = txn.Time
	}
}

// wantTold expects that no change is left of which nobody was told.
func (l *ledger) wantTold() {
	for _, u := range l.untold {
		l.violatef(18, u.slot, u.txn.Time, "%v of %s by session %x does not set %s", u.txn.Op, u.txn.Path, u.txn.Session, u.path)
	}
	l.untold = nil
}

func declared(p *profile) { p.Declared = true }

// unsignaled has changes of jobs set another node than their signals.
func unsignaled(op zkdev.Op, path string, version int32) (string, int32) {
	if root, _, is := strings.Cut(path, "/_changes/"); is && op == zkdev.OpSetData {
		return root + "/_handlers", version
	}
	return path, version
}

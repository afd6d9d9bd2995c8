package sim

import (
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// request is what an operator has asked the owner of a slot for.
type request struct {
	kind      string
	withdrawn bool // by an operator
}

func (l *ledger) requested(txn *zkdev.Txn) {
	r, err := zkrec.ParseRequest(txn.Data)
	if err != nil {
		l.violatef(2, txn.Path, txn.Time, "a request cannot be read: %v", err)
		return
	}
	l.requests[txn.Path] = &request{kind: r.Kind}
}

// isDone reports whether a request may be deleted although no run was claimed for it: a request to stop when the run was told,
// or one that an operator withdraws.
func (r *request) isDone(deleted *zkdev.Txn, instances map[int64]string) bool {
	if r == nil {
		return false
	}
	r.withdrawn = instances[deleted.Session] == ""
	return r.kind == zkrec.RequestStop || r.withdrawn
}

// checkManual verifies that no run is claimed for a request after it was withdrawn.
func (l *ledger) checkManual(slot string, txn *zkdev.Txn, rec zkrec.Tick, acc *account) {
	if rec.Manual == "" || acc.manual[rec.Manual] {
		return
	}
	if r := l.requests[l.tree.Request(slot, rec.Manual)]; r == nil || r.withdrawn || r.kind != zkrec.RequestRun {
		l.violatef(2, slot, txn.Time, "%s claims a run that nobody asks for: %s, %+v", rec.SID, rec.Manual, r)
	}
}

package ledger

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Return takes in that a node has an earlier content again: ZooKeeper has lost the later writes.
// Apply then judges the next transactions by that.
func (l *Ledger) Return(r txnlog.Return) {
	slot, node, rest, _ := l.model.Split(r.Path)
	l.model.Return(r)
	if r.Node != nil {
		op := created(*r.Node)
		l.note(&txnlog.Txn{Session: r.Node.Owner}, &op)
	}
	switch {
	case slot != "" && node == NodeTick && rest == "":
		l.unclaim(slot, r)
		l.unhold(slot)
	case slot != "" && node == NodeAlive && rest == "":
		for _, n := range r.Gone {
			l.disowned[n.Mzxid] = true
		}
	case slot != "" && node == NodeRequests && rest != "" && r.Node != nil:
		if j := l.model.Jobs[slot]; j != nil && j.claimed(rest) {
			add(l.claimed, slot, rest)
		}
	}
}

// unclaim forgets the claims that are gone.
func (l *Ledger) unclaim(slot string, r txnlog.Return) {
	for _, n := range r.Gone {
		if rec, err := zkrec.ParseTick(n.Data, n.Mtime); err == nil && rec.Manual != "" {
			remove(l.claimed, slot, rec.Manual)
		}
	}
	if j := l.model.Jobs[slot]; j != nil && j.Tick.Manual != "" {
		add(l.claimed, slot, j.Tick.Manual)
	}
	job := zkrec.JobOfSlot(slot)
	delete(l.latest, job)
	for _, one := range append(l.model.Shards(job), l.model.Jobs[job]) {
		if one != nil && one.Tick.Manual == "" {
			l.latest[job] = max(l.latest[job], one.Tick.Tick)
		}
	}
}

// unhold has a slot hold the places of the run that is on record again.
func (l *Ledger) unhold(slot string) {
	maps.DeleteFunc(l.holders, func(_ zkrec.Place, holder string) bool { return holder == slot })
	if j := l.model.Jobs[slot]; j != nil && j.Tick.Open() {
		for _, place := range j.Tick.Places.List() {
			l.holders[place] = slot
		}
	}
}

// claimed reports whether a run of a request is on record.
func (j *Job) claimed(request string) bool {
	return j.Tick.Manual == request ||
		slices.ContainsFunc(j.History.Entries, func(e zkrec.Entry) bool { return e.Manual == request })
}

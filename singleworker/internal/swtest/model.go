package swtest

import (
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The parts of the tree that View shows.
type (
	Model  = ledger.Model
	Job    = ledger.Job
	Member = ledger.Member
)

// Transactions puts the server's log into the form that package ledger judges. Refused writes are
// left out.
func Transactions(log []zkdev.Txn) (txns []*txnlog.Txn) {
	for _, entry := range log {
		if entry.Code != zkdev.OK {
			continue
		}
		var txn *txnlog.Txn
		if n := len(txns); n > 0 && txns[n-1].Zxid == entry.Zxid {
			txn = txns[n-1]
		} else {
			txn = &txnlog.Txn{Zxid: entry.Zxid, Session: entry.Session, Time: entry.Written, True: entry.Time}
			txns = append(txns, txn)
		}
		op := txnlog.Op{Path: entry.Path, Data: entry.Data, Version: entry.Version, Owner: entry.Owner}
		switch entry.Op {
		case zkdev.OpConnect:
			txn.Kind = txnlog.Connect
			continue
		case zkdev.OpCloseSession:
			txn.Kind = txnlog.Close
			continue
		case zkdev.OpCreate, zkdev.OpCreate2:
			op.Type = txnlog.Create
		case zkdev.OpDelete:
			op.Type = txnlog.Delete
		case zkdev.OpSetData:
			op.Type = txnlog.SetData
		case zkdev.OpCheck:
			op.Type = txnlog.Check
		default:
			continue // changes no data
		}
		if txn.Kind == txnlog.Other {
			txn.Kind = txnlog.Write
		}
		txn.Ops = append(txn.Ops, op)
	}
	return txns
}

// View calls f with the tree as it is now, which f must not keep or change.
func (c *Cluster) View(f func(m *Model)) {
	c.modelMu.Lock()
	defer c.modelMu.Unlock()
	if c.model == nil {
		c.model = ledger.NewModel(c.tree)
	}
	for _, txn := range Transactions(c.Server.LogAfter(c.applied)) {
		if !slices.ContainsFunc(c.lost, func(x loss) bool { return txn.Zxid > x.after && txn.Zxid <= x.last }) {
			c.model.Apply(txn)
		}
		c.applied = txn.Zxid
	}
	f(c.model)
}

// loss is of the transactions after one, by zxid, up to the last one.
type loss struct{ after, last int64 }

// Restore has the server lose the transactions after a snapshot of it.
func (c *Cluster) Restore(snapshot *zkdev.Snapshot) error {
	return c.lose(snapshot, c.Server.Restore)
}

// Renew is Restore by swctl serve restore; see [zkdev.Server.Renew].
func (c *Cluster) Renew(snapshot *zkdev.Snapshot) error {
	return c.lose(snapshot, c.Server.Renew)
}

func (c *Cluster) lose(snapshot *zkdev.Snapshot, by func(*zkdev.Snapshot) error) error {
	c.modelMu.Lock()
	defer c.modelMu.Unlock()
	c.lost = append(c.lost, loss{snapshot.Zxid(), c.Server.Zxid()})
	c.model, c.applied = nil, 0
	return by(snapshot)
}

// Reset replaces the server's data by a snapshot; see [zkdev.Server.Reset].
func (c *Cluster) Reset(snapshot *zkdev.Snapshot) error {
	c.modelMu.Lock()
	defer c.modelMu.Unlock()
	c.lost = slices.DeleteFunc(c.lost, func(x loss) bool { return x.last > snapshot.Zxid() }) // their zxids are used again
	c.model, c.applied = nil, 0
	return c.Server.Reset(snapshot)
}

// Owners returns the owner of each slot that a live instance owns.
func (c *Cluster) Owners() map[string]string {
	owners := make(map[string]string)
	c.View(func(m *Model) {
		for slot := range m.Jobs {
			if sid := m.LiveOwner(slot); sid != "" {
				owners[slot] = sid
			}
		}
	})
	return owners
}

// Slots returns the slots of a job that exists: its current shards, or itself if it has none. A
// name that is no job's is returned as it is.
func (c *Cluster) Slots(job string) (slots []string) {
	slots = []string{job}
	c.View(func(m *Model) {
		if j := m.Jobs[job]; j != nil {
			slots = j.Spec.ActiveLayout().Slots(job)
			if j.Spec.Job.Everywhere {
				slots = nil
				for _, part := range m.Shards(job) {
					slots = append(slots, part.Name)
				}
			}
		}
	})
	return slots
}

// Shares counts the slots of each live instance, from Owners.
func (c *Cluster) Shares() map[string]int {
	shares := make(map[string]int)
	for _, i := range c.Live() {
		shares[i.Name] = 0
	}
	for sid := range maps.Values(c.Owners()) {
		shares[sid]++
	}
	return shares
}

// Await polls ok a hundred times per session timeout until it returns true, and reports whether
// that happened within the time given.
func (c *Cluster) Await(within time.Duration, ok func() bool) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	look := time.NewTicker(c.cfg.SessionTimeout / 100)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-timer.C:
			return ok()
		}
	}
	return true
}

package txnlog

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

// History follows the version of each node from one transaction to the next. ZooKeeper counts
// versions without gaps, so a transaction tells the version of its node before. If that is not the
// version in the log, the leader worked without transactions that were logged before: the ensemble
// has lost them. Not safe for concurrent use.
type History struct {
	losses []Loss         // in the order in which they were found
	lost   map[int64]bool // zxids of the latest loss

	nodes      map[string]*write
	wrote      map[int64]map[string]bool // the nodes whose latest write it is, by zxid
	ephemerals map[int64]map[string]bool // paths by session
	aside      map[string][]*write
	old        []*write // that were replaced, the oldest first
	oldBytes   int
}

// NewHistory returns the history of a tree of which nothing is known.
func NewHistory() *History {
	return &History{
		nodes: make(map[string]*write), wrote: make(map[int64]map[string]bool), ephemerals: make(map[int64]map[string]bool), aside: make(map[string][]*write),
	}
}

// Loss is a number of transactions that were logged and that a later leader did not have.
type Loss struct {
	First, Last int64     // zxids
	Txns        int       // transactions of which a write is gone
	Shown       int64     // zxid of the first transaction that shows it
	Time        time.Time // of that transaction
	Back        bool      // a still later leader had them again
}

// Return is a node that is again as it was some time ago.
type Return struct {
	Path string
	// Node is how it was: nil if it did not exist.
	Node *Node
	// Gone are the writes since then, the latest first. Deletions have no data.
	Gone []Node
}

// maxOld and maxOldBytes bound the history of nodes that were written again.
const (
	maxOld      = 1 << 17
	maxOldBytes = 64 << 20
)

// write is one that gave a node its content for a time.
type write struct {
	Node

	absent bool   // it deleted the node
	before *write // nil if that is not known, or not kept
	first  bool   // before it, the node did not exist
}

// SetAside takes in a transaction that other servers have continued without.
func (h *History) SetAside(txn *Txn) {
	for k := range txn.Ops {
		if op := &txn.Ops[k]; op.Type != Check {
			h.aside[op.Path] = append(h.aside[op.Path], newWrite(txn, op, nil))
		}
	}
}

// Next takes in the next transaction. It returns the nodes that it shows to be again as they were
// before. If it shows that the leader had a transaction that was set aside, it returns that one's
// zxid, or else 0.
func (h *History) Next(txn *Txn) (returns []Return, back int64) {
	for k := range txn.Ops {
		op := &txn.Ops[k]
		now := h.nodes[op.Path]
		if now != nil && !now.precedes(op) {
			was, gone := now.earlier(txn, op)
			if later := h.setAside(op, now.Mzxid); later != 0 {
				back = cmp.Or(back, later)
			} else if len(gone) > 0 {
				undone := append([]Return{h.undo(txn, op.Path, was, gone)}, h.undoParents(txn, op.Path, was)...)
				returns = slices.Concat(returns, undone, h.undoRest(txn, undone))
				now = was
			}
		}
		if op.Type != Check {
			h.put(op.Path, now, newWrite(txn, op, now))
		}
	}
	if txn.Kind == Close {
		for name := range h.ephemerals[txn.Session] { // logs of old versions do not list them
			h.put(name, h.nodes[name], newWrite(txn, &Op{Type: Delete, Path: name}, h.nodes[name]))
		}
		delete(h.ephemerals, txn.Session)
	}
	return returns, back
}

// Losses returns the losses so far, by zxid.
func (h *History) Losses() []Loss {
	return slices.SortedStableFunc(slices.Values(h.losses), func(a, b Loss) int { return cmp.Compare(a.First, b.First) })
}

// CameBack adds transactions that were set aside and that a later one shows to be there.
func (h *History) CameBack(loss Loss) {
	loss.Back = true
	h.losses = append(h.losses, loss)
}

func newWrite(txn *Txn, op *Op, before *write) *write {
	w := &write{before: before, absent: op.Type == Delete}
	w.Node = Node{Path: op.Path, Data: op.Data, Czxid: txn.Zxid, Mzxid: txn.Zxid, Mtime: txn.Time, Version: op.Version, Owner: op.Owner}
	switch {
	case op.Type == Create:
		w.Version, w.first = 0, before == nil
	case before != nil:
		w.Czxid, w.Owner = before.Czxid, before.Owner
	}
	return w
}

// precedes reports whether an operation fits the node as it is.
func (w *write) precedes(op *Op) bool {
	switch op.Type {
	case Create:
		return w.absent
	case Delete:
		return !w.absent
	case SetData, Check:
		return !w.absent && w.Version == op.Version-1
	}
	return true
}

// maxGone bounds the writes of one node that are looked through.
const maxGone = 1 << 12

// earlier finds the latest write that an operation fits, and those after it. It returns none if it
// is not known, or if they cannot be lost; was is nil if the node did not exist before all of them.
func (w *write) earlier(txn *Txn, op *Op) (was *write, gone []Node) {
	for was = w; was != nil && w.canMiss(txn) && len(gone) < maxGone; was = was.before {
		if was.precedes(op) {
			return was, gone
		}
		gone = append(gone, was.Node)
		if was.first && op.Type == Create {
			return nil, gone
		}
	}
	return nil, nil
}

// canMiss reports whether a transaction can have been made without a write: a leader has all that
// it has ordered itself.
func (w *write) canMiss(txn *Txn) bool { return zxids.Epoch(w.Mzxid) < zxids.Epoch(txn.Zxid) }

// undo gives a node its earlier content back.
func (h *History) undo(txn *Txn, name string, was *write, gone []Node) Return {
	oldest := gone[len(gone)-1].Mzxid
	if n := len(h.losses); n == 0 || h.losses[n-1].Back || oldest > h.losses[n-1].Shown {
		h.losses = append(h.losses, Loss{First: oldest, Shown: txn.Zxid, Time: txn.Time})
		h.lost = make(map[int64]bool)
	}
	loss := &h.losses[len(h.losses)-1]
	for _, node := range gone {
		h.lost[node.Mzxid] = true
		loss.First, loss.Last = min(loss.First, node.Mzxid), max(loss.Last, node.Mzxid)
	}
	loss.Txns = len(h.lost)
	h.set(name, was)
	back := Return{Path: name, Gone: gone}
	if was != nil && !was.absent {
		node := was.Node
		back.Node = &node
	}
	return back
}

// undoParents gives the nodes above one the content that they had when it was made, if they were
// made again since: it would be gone with them.
func (h *History) undoParents(txn *Txn, child string, made *write) (returns []Return) {
	if made == nil {
		return nil
	}
	for at := path.Dir(child); at != "/" && at != "."; at = path.Dir(at) {
		var gone []Node
		now := h.nodes[at]
		was := now
		for ; was != nil && (was.absent || was.Czxid > made.Czxid); was = was.before {
			gone = append(gone, was.Node)
		}
		if was != nil && len(gone) > 0 && now.canMiss(txn) {
			returns = append(returns, h.undo(txn, at, was, gone))
		}
	}
	return returns
}

// undoRest gives the other nodes their earlier content back that the transactions of some returns
// have written last: each of them is gone as a whole.
func (h *History) undoRest(txn *Txn, undone []Return) (returns []Return) {
	rest := make(map[string]bool)
	for _, r := range undone {
		for _, node := range r.Gone {
			maps.Copy(rest, h.wrote[node.Mzxid])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		was, known := h.nodes[name], true
		var gone []Node
		for known && was != nil && h.lost[was.Mzxid] {
			gone = append(gone, was.Node)
			known = was.first || was.before != nil
			was = was.before
		}
		if known && len(gone) > 0 {
			returns = append(returns, h.undo(txn, name, was, gone))
		}
	}
	return returns
}

// setAside finds the latest transaction set aside, after another one, after which an operation
// fits.
func (h *History) setAside(op *Op, after int64) int64 {
	for _, w := range slices.Backward(h.aside[op.Path]) {
		if w.Mzxid > after && w.precedes(op) {
			return w.Mzxid
		}
	}
	return 0
}

// set has a node be as a write left it, or as before all that is known of it if that is nil.
func (h *History) set(name string, w *write) {
	if was := h.nodes[name]; was != nil {
		if delete(h.wrote[was.Mzxid], name); len(h.wrote[was.Mzxid]) == 0 {
			delete(h.wrote, was.Mzxid)
		}
	}
	if h.nodes[name] = w; w == nil {
		return
	}
	if h.wrote[w.Mzxid] == nil {
		h.wrote[w.Mzxid] = make(map[string]bool)
	}
	h.wrote[w.Mzxid][name] = true
}

// put makes a write the latest one of its node.
func (h *History) put(name string, before, now *write) {
	if before != nil {
		h.old = append(h.old, before)
		h.oldBytes += len(before.Data)
		if of := h.ephemerals[before.Owner]; of != nil && now.absent {
			delete(of, name)
		}
	}
	if now.Owner != 0 && !now.absent {
		if h.ephemerals[now.Owner] == nil {
			h.ephemerals[now.Owner] = make(map[string]bool)
		}
		h.ephemerals[now.Owner][name] = true
	}
	h.set(name, now)
	for len(h.old) > maxOld || h.oldBytes > maxOldBytes {
		forgotten := h.old[0]
		h.old = h.old[1:]
		h.oldBytes -= len(forgotten.Data)
		forgotten.before = nil
	}
}

package tree

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// Logged returns one transaction as ZooKeeper logs it: txns have the same zxid.
func Logged(txns []Txn) txnlog.Txn {
	first := &txns[0]
	t := txnlog.Txn{Zxid: first.Zxid, Session: first.Session, Time: first.Time.Add(first.ahead), Kind: txnlog.Write}
	switch {
	case first.Op == wire.OpConnect:
		t.Kind, t.Timeout = txnlog.Connect, first.timeout
		return t
	case first.Op == wire.OpCloseSession:
		t.Kind, txns = txnlog.Close, txns[1:]
	case first.Op == wire.OpSetACL && first.Code == wire.OK:
		t.Kind, t.Access = txnlog.Other, &txnlog.Access{Path: first.Path, ACL: loggedACL(first.acl), Version: first.Version}
		return t
	}
	for i := range txns {
		if code := txns[i].Code; code != wire.OK {
			t.Kind, t.Code, t.Ops = txnlog.Other, cmp.Or(t.Code, int32(code)), nil
			continue
		}
		t.Ops = append(t.Ops, logged(&txns[i]))
	}
	return t
}

func logged(t *Txn) txnlog.Op {
	op := txnlog.Op{Path: t.Path, Data: t.Data, Version: t.Version, Owner: t.Owner}
	switch t.Op {
	case wire.OpCreate, wire.OpCreate2:
		op.Type, op.ACL, op.Born = txnlog.Create, loggedACL(t.acl), t.born
	case wire.OpDelete:
		op.Type = txnlog.Delete
	case wire.OpSetData:
		op.Type = txnlog.SetData
	default:
		op.Type = txnlog.Check
		op.Version++ // as ZooKeeper does
	}
	return op
}

func loggedACL(acl []wire.ACL) []txnlog.ACL {
	list := make([]txnlog.ACL, len(acl))
	for i, entry := range acl {
		list[i] = txnlog.ACL{Perms: entry.Perms, Scheme: entry.Scheme, ID: entry.ID.ID}
	}
	return list
}

func readACL(acl []txnlog.ACL) []wire.ACL {
	list := make([]wire.ACL, len(acl))
	for i, entry := range acl {
		list[i] = wire.ACL{Perms: entry.Perms, ID: wire.ID{Scheme: entry.Scheme, ID: entry.ID}}
	}
	return list
}

// Replay applies a transaction of a log. Transactions must come in order, but the state may show
// traces of those that are still to come: a ZooKeeper writes a snapshot while it works. It returns
// ErrUnsupported if the transaction makes a node that the package does not support.
func (s *State) Replay(t *txnlog.Txn) error {
	s.last, s.taken = t.Zxid, max(s.taken, t.Zxid)
	switch t.Kind {
	case txnlog.Connect:
		if s.sessions[t.Session] == nil {
			s.addSession(t.Session, t.Timeout)
		}
	case txnlog.Close:
		if of := s.sessions[t.Session]; of != nil {
			for _, path := range of.ephemerals.cloned() {
				s.replayDelete(path)
			}
			delete(s.sessions, t.Session)
		}
	case txnlog.Write, txnlog.Other:
	}
	if a := t.Access; a != nil && s.nodes[a.Path] != nil {
		s.nodes[a.Path].acl, s.nodes[a.Path].aversion = readACL(a.ACL), a.Version
	}
	for i := range t.Ops {
		if err := s.replayOp(t, &t.Ops[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) addSession(id int64, timeout time.Duration) {
	const ours = 1 << 56 // the ids of other servers begin here
	s.sessions[id] = &session{id: id, timeout: timeout, ephemerals: javaSet[string]{buckets: defaultBuckets}}
	if id >= 0 && id < ours {
		s.nextSession = max(s.nextSession, id+1)
	}
}

func (s *State) replayOp(t *txnlog.Txn, op *txnlog.Op) error {
	switch op.Type {
	case txnlog.Create:
		if op.Vanishes {
			return unsupported(op.Path)
		}
		s.replayCreate(t, op)
	case txnlog.Delete:
		s.replayDelete(op.Path)
	case txnlog.SetData:
		if n := s.nodes[op.Path]; n != nil {
			n.data, n.version, n.mzxid, n.mtime = bytes.Clone(op.Data), op.Version, t.Zxid, t.Time.UnixMilli()
		}
	case txnlog.Check:
	}
	return nil
}

func (s *State) replayCreate(t *txnlog.Txn, op *txnlog.Op) {
	path, _, ok := splitLogged(op.Path)
	parent := s.nodes[path]
	if !ok || parent == nil {
		return // was deleted before the snapshot came to it
	}
	creates, pzxid := parent.creates, parent.pzxid
	if s.nodes[op.Path] == nil {
		s.insert(new(Output), t.Time, change{path: op.Path, data: bytes.Clone(op.Data), acl: readACL(op.ACL), owner: op.Owner})
	}
	parent.creates, parent.pzxid = creates, pzxid
	born := op.Born
	if born == -1 {
		born = creates + 1
	}
	if born > creates {
		parent.creates, parent.pzxid = born, t.Zxid
	}
}

func (s *State) replayDelete(path string) {
	of, _, ok := splitLogged(path)
	parent := s.nodes[of]
	if !ok || parent == nil {
		return
	}
	pzxid := max(parent.pzxid, s.last)
	if s.nodes[path] != nil {
		s.remove(new(Output), path)
	}
	parent.pzxid = pzxid
}

// splitLogged splits a path from a file. It returns false for one that cannot be a node's.
func splitLogged(path string) (parent, child string, ok bool) {
	if path == "/" || !strings.HasPrefix(path, "/") {
		return "", "", false
	}
	parent, child = split(path)
	return parent, child, true
}

// BeginEpoch has zxids begin as another leader's do.
func (s *State) BeginEpoch(epoch int64) {
	s.last, s.taken = epoch<<zxids.EpochBits, epoch<<zxids.EpochBits
}

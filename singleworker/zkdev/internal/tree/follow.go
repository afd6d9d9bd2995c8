package tree

import (
	"maps"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// Clone returns a copy of the state, without watches. The data of nodes, which is never changed in
// place, is shared.
func (s *State) Clone() *State {
	c := *s
	c.nodes = make(map[string]*node, len(s.nodes))
	copies := make(map[*node]*node, len(s.nodes))
	for path, n := range s.nodes {
		if copies[n] == nil { // the root has two paths
			twin := *n
			twin.children = n.children.clone()
			copies[n] = &twin
		}
		c.nodes[path] = copies[n]
	}
	c.sessions = make(map[int64]*session, len(s.sessions))
	for id, of := range s.sessions {
		twin := *of
		twin.ephemerals = of.ephemerals.clone()
		c.sessions[id] = &twin
	}
	c.data, c.children = newWatchTable(), newWatchTable()
	return &c
}

// Succeed has zxids and session ids begin after another state's, and takes over its clock.
func (s *State) Succeed(other *State) {
	s.Ahead = other.Ahead
	s.last, s.taken, s.nextSession = other.last, other.taken, other.nextSession
}

// SkipSessions has session ids begin after another state's.
func (s *State) SkipSessions(other *State) { s.nextSession = other.nextSession }

// Follow applies a transaction of the state that s is a copy of. Transactions must come in order. s
// must not be written to otherwise.
func (s *State) Follow(txn *Txn) (out Output) {
	s.last = txn.Zxid
	if txn.Code != wire.OK {
		return out
	}
	c := change{op: txn.Op, path: txn.Path, data: txn.Data, acl: txn.acl, version: txn.Version, owner: txn.Owner}
	switch txn.Op {
	case wire.OpConnect:
		s.sessions[txn.Session] = &session{id: txn.Session, ephemerals: javaSet[string]{buckets: defaultBuckets}}
	case wire.OpCloseSession:
		delete(s.sessions, txn.Session)
	default:
		s.Ahead = txn.ahead
		s.commit(&out, txn.Time, txn.Session, c)
	}
	out.Txns = nil // they were logged
	return out
}

// MoveWatches gives a connection's watches to another state.
func (s *State) MoveWatches(c Conn, to *State) {
	for path := range s.data.byConn[c] {
		to.data.add(path, c)
	}
	for path := range s.children.byConn[c] {
		to.children.add(path, c)
	}
	s.DropConn(c)
}

// IsRead reports whether an operation changes nothing but watches.
func IsRead(op wire.Op) bool { return op == wire.OpPing || isRead(op) }

// clone returns a copy.
func (s *javaSet[K]) clone() javaSet[K] {
	c := *s
	c.places = maps.Clone(s.places)
	return c
}

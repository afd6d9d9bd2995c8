package zkdev

import (
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A Snapshot is the nodes and the sessions of a server at one time.
type Snapshot struct{ state *tree.State }

// Zxid returns the zxid of the latest transaction in the snapshot.
func (n *Snapshot) Zxid() int64 { return n.state.Zxid() }

// Snapshot returns the server's nodes and sessions as they are.
func (s *Server) Snapshot() *Snapshot {
	n := new(Snapshot)
	s.do(func(k *core) { n.state = k.state.Clone() })
	return n
}

// Restore restarts the server with the data of a snapshot: it has lost all later transactions,
// although they were acknowledged. As under the new leader of an ensemble that has lost them, zxids
// and session ids are not used again. [Server.Log] continues to return them.
func (s *Server) Restore(n *Snapshot) error {
	return s.replace(n, func(k *core, restored *tree.State) { restored.Succeed(k.state) })
}

// Renew restarts the server with the data that swctl serve restore makes of a snapshot. No session
// goes on, and zxids go on so far above all that were used that clients can tell. [Server.Log]
// continues to return the lost transactions.
func (s *Server) Renew(n *Snapshot) error {
	return s.replace(n, func(k *core, renewed *tree.State) {
		renewed.Succeed(k.state)
		renewed.Renew(zxids.Epoch(k.state.Zxid()) + zxids.Leap)
	})
}

// SetReadOnly restarts the server as one whose ensemble has lost its quorum, and which was started
// with readonlymode.enabled: it lets in only clients that ask for one, lets them only read, and
// ends no session. With false, the quorum is back, and the sessions of those clients, which count
// as transactions, are forgotten.
func (s *Server) SetReadOnly(readOnly bool) error {
	var was *Snapshot
	s.Stop()
	s.do(func(k *core) {
		k.readOnly = readOnly
		switch was = k.before; {
		case !readOnly:
			k.before = nil
		case was == nil:
			k.before = &Snapshot{k.state.Clone()}
		}
	})
	if readOnly || was == nil {
		return s.Start()
	}
	return s.Reset(was)
}

// Reset restarts the server with the data of a snapshot, as after its data directory was replaced
// by a copy: unlike after [Server.Restore], zxids are used again, and [Server.Log] forgets the lost
// transactions. Session ids are not: a server begins with one that it takes from its clock. A
// client that has seen a later zxid is hung up on until the server has counted as far.
func (s *Server) Reset(n *Snapshot) error {
	return s.replace(n, func(k *core, reset *tree.State) {
		reset.SkipSessions(k.state)
		k.log.forget(n.Zxid())
	})
}

// replace restarts the server with the data of a snapshot, once adapt has fitted that to the
// present state.
func (s *Server) replace(n *Snapshot, adapt func(k *core, state *tree.State)) error {
	s.Stop()
	s.do(func(k *core) {
		state := n.state.Clone()
		adapt(k, state)
		k.state = state
		for _, f := range k.behind {
			f.state, f.queue = state.Clone(), nil
		}
	})
	return s.Start()
}

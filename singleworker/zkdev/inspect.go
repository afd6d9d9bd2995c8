package zkdev

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
)

// A SessionInfo describes a session.
type SessionInfo struct {
	ID         int64
	Client     string // name of the Client that dialed, or ""
	Connected  bool
	Timeout    time.Duration
	Expires    time.Time // unless its client is heard from again
	Ephemerals []string  // sorted
}

// Sessions lists the live sessions, oldest first.
func (s *Server) Sessions() []SessionInfo {
	var list []SessionInfo
	s.do(func(k *core) { list = k.sessions() })
	return list
}

func (k *core) sessions() []SessionInfo {
	var list []SessionInfo
	for _, session := range k.state.Sessions() {
		info := SessionInfo{
			ID: session.ID, Timeout: session.Timeout,
			Expires: session.Expires, Ephemerals: session.Ephemerals,
		}
		if c := k.attached[session.ID]; c != nil {
			info.Connected, info.Client, info.Timeout = true, c.client.name(), c.timeout
		}
		list = append(list, info)
	}
	return list
}

// Traffic counts the requests of clients, by operation, including refused ones.
type Traffic struct {
	// Requests counts each request once, also one with many parts.
	Requests map[Op]int
	// Parts counts the operations inside multi and multiRead.
	Parts map[Op]int
}

// Traffic returns the requests of all clients together since the server was created.
func (s *Server) Traffic() Traffic {
	var t Traffic
	s.do(func(k *core) {
		t = Traffic{Requests: maps.Clone(k.traffic.Requests), Parts: maps.Clone(k.traffic.Parts)}
	})
	return t
}

// Log returns the latest Config.KeepLog transactions in order, including the start and end of
// sessions and refused writes.
func (s *Server) Log() []Txn { return s.LogAfter(0) }

// LogAfter returns the part of Log after a zxid, for callers that poll.
func (s *Server) LogAfter(zxid int64) []Txn {
	var log []Txn
	s.do(func(k *core) { log = k.log.after(zxid) })
	return log
}

// Zxid returns the zxid of the latest transaction.
func (s *Server) Zxid() int64 {
	var zxid int64
	s.do(func(k *core) { zxid = k.state.Zxid() })
	return zxid
}

// Dump writes the server's state for people to read: one line per node, then one per session. The
// format may change.
func (s *Server) Dump(w io.Writer) error {
	var nodes []tree.NodeInfo
	var sessions []SessionInfo
	s.do(func(k *core) { nodes, sessions = k.state.Dump(), k.sessions() })

	const shown = 200 // bytes of a node's data
	b := bufio.NewWriter(w)
	for _, n := range nodes {
		fmt.Fprintf(b, "%s v%d c%d mzxid=%#x", n.Path, n.Stat.Version, n.Stat.Cversion, n.Stat.Mzxid)
		if n.Stat.EphemeralOwner != 0 {
			fmt.Fprintf(b, " owner=%#x", n.Stat.EphemeralOwner)
		}
		if len(n.Data) > shown {
			fmt.Fprintf(b, " %q... (%d bytes)\n", n.Data[:shown], len(n.Data))
		} else {
			fmt.Fprintf(b, " %q\n", n.Data)
		}
	}
	for _, session := range sessions {
		fmt.Fprintf(b, "session %#x client=%q connected=%v timeout=%v ephemerals=%d\n",
			session.ID, session.Client, session.Connected, session.Timeout, len(session.Ephemerals))
	}
	return b.Flush()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

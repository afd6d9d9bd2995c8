package tree

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A Conn is the number of a connection. Watches belong to connections, not sessions.
type Conn uint64

// A Client is whoever makes a request.
type Client struct {
	Session int64
	Conn    Conn
	IDs     []wire.ID // what it has authenticated as, and its address
}

// A State is the whole of a server. Not safe for concurrent use.
type State struct {
	nodes map[string]*node // by full path; the root is "" and "/"
	last  int64            // zxid of the last transaction
	taken int64            // last zxid given away; larger when a request failed in an odd way
	epoch time.Time        // sessions count time from here
	tick  time.Duration

	data, children *watchTable

	sessions    map[int64]*session
	nextSession int64
}

// An Output is what a request, or the end of a session, causes.
type Output struct {
	Reply  *Reply // nil when there is none
	Events []Event
	Txns   []Txn
	Close  bool // the connection ends after the reply
}

// A Reply answers a request.
type Reply struct {
	Zxid int64
	Code wire.Code
	Body wire.Body // may be nil
}

// An Event is a watch that fired. Events come before the reply of the request
// that caused them.
type Event struct {
	Conn Conn
	Type wire.EventType
	Path string
	acl  []wire.ACL
}

// VisibleTo reports whether a client with these identities is told. One who may
// not read the node is not, and loses its watch all the same.
func (e Event) VisibleTo(ids []wire.ID) bool { return allowed(e.acl, wire.PermRead, ids) }

// A Txn is one write as it was applied or refused. The operations of a multi are
// one each, with the same zxid.
type Txn struct {
	Zxid    int64
	Time    time.Time
	Session int64
	Op      wire.Op
	Path    string
	Data    []byte // must not be changed
	Version int32  // of the data, after a change; the one asked for, if refused
	Owner   int64  // of an ephemeral node that was created
	Expired bool   // the session was closed because its client was not heard from
	Code    wire.Code
}

// New returns a tree as a new ZooKeeper has it. Sessions expire in steps of tick,
// counted from now.
func New(now time.Time, tick time.Duration) *State {
	s := &State{
		nodes:       map[string]*node{},
		epoch:       now,
		tick:        tick,
		data:        newWatchTable(),
		children:    newWatchTable(),
		sessions:    map[int64]*session{},
		nextSession: firstSession(now),
	}
	root := &node{data: []byte{}, acl: worldACL(wire.PermAll)}
	s.nodes[""], s.nodes["/"] = root, root
	for _, name := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		s.nodes[name] = &node{data: []byte{}, acl: worldACL(wire.PermAll)}
		parent, child := split(name)
		s.nodes[parent].children.add(child, hashString(child))
	}
	config := s.nodes["/zookeeper/config"]
	config.acl, config.aversion = worldACL(wire.PermRead), -1
	return s
}

// Zxid is that of the last transaction.
func (s *State) Zxid() int64 { return s.last }

// Nodes is the number of nodes.
func (s *State) Nodes() int { return len(s.nodes) - 1 }

// Watches is the number of watches.
func (s *State) Watches() int { return s.data.size() + s.children.size() }

// DropConn forgets a connection's watches.
func (s *State) DropConn(c Conn) {
	s.data.dropConn(c)
	s.children.dropConn(c)
}

// begin takes the next zxid for a write, and ends what came before it.
func (s *State) begin() {
	s.taken++
	s.last = s.taken
}

// trigger fires the watches of a table on one path, for those who may read it by
// acl. Connections in except have had their event already, and only lose the watch.
func trigger(out *Output, table *watchTable, t wire.EventType, path string, acl []wire.ACL, except []Conn) []Conn {
	conns := table.take(path)
	for _, c := range conns {
		if !slices.Contains(except, c) {
			out.Events = append(out.Events, Event{Conn: c, Type: t, Path: path, acl: acl})
		}
	}
	return conns
}

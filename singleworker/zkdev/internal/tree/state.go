package tree

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A Conn is the number of a connection. Watches belong to connections, not sessions.
type Conn uint64

// A Client is the sender of a request.
type Client struct {
	Session int64
	Conn    Conn
	IDs     []wire.ID // authenticated identities and its address
}

// A State is the state of a server. It is not safe for concurrent use.
type State struct {
	// Ahead is how far the server's clock is ahead, by which it writes the times of nodes.
	Ahead time.Duration

	nodes map[string]*node // by full path; the root is "" and "/"
	last  int64            // zxid of the latest transaction
	taken int64            // latest zxid assigned; larger than last if a request failed before its transaction
	epoch time.Time        // origin of session times
	tick  time.Duration

	data, children *watchTable

	sessions    map[int64]*session
	nextSession int64
}

// An Output is the effect of a request or of the end of a session.
type Output struct {
	Reply  *Reply // or nil
	Events []Event
	Txns   []Txn
	Close  bool // close the connection after the reply
}

// A Reply answers a request.
type Reply struct {
	Zxid int64
	Code wire.Code
	Body wire.Body // may be nil
}

// An Event is a watch that fired. Events are sent before the reply to the request that caused them.
type Event struct {
	Conn Conn
	Type wire.EventType
	Path string
	acl  []wire.ACL
}

// VisibleTo reports whether a client with these identities receives the event. A client that may
// not read the node does not, but still loses its watch.
func (e Event) VisibleTo(ids []wire.ID) bool { return allowed(e.acl, wire.PermRead, ids) }

// A Txn is one write that was applied or refused. Each operation of a multi is one, with the same
// zxid.
type Txn struct {
	Zxid    int64
	Time    time.Time
	Session int64
	Op      wire.Op
	Path    string
	Data    []byte // read only
	Version int32  // of the data after the write; the expected version if it was refused
	Owner   int64  // session of a created ephemeral node
	Expired bool   // the session timed out
	Code    wire.Code
	acl     []wire.ACL // that was set
	born    int32      // how many children the parent of a created node has had
	timeout time.Duration
	ahead   time.Duration
}

// New returns the state of a new ZooKeeper server. Sessions expire at multiples of tick from now.
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

// Zxid returns the zxid of the latest transaction.
func (s *State) Zxid() int64 { return s.last }

// Nodes returns the number of nodes.
func (s *State) Nodes() int { return len(s.nodes) - 1 }

// Watches returns the number of watches.
func (s *State) Watches() int { return s.data.size() + s.children.size() }

// DropConn removes a connection's watches.
func (s *State) DropConn(c Conn) {
	s.data.dropConn(c)
	s.children.dropConn(c)
}

// begin assigns the next zxid to a write.
func (s *State) begin() {
	s.taken++
	s.last = s.taken
}

// trigger fires the watches of a table on one path. acl decides who may read the node. Connections
// in except already have their event and only lose the watch.
func trigger(out *Output, table *watchTable, t wire.EventType, path string, acl []wire.ACL, except []Conn) []Conn {
	conns := table.take(path)
	for _, c := range conns {
		if !slices.Contains(except, c) {
			out.Events = append(out.Events, Event{Conn: c, Type: t, Path: path, acl: acl})
		}
	}
	return conns
}

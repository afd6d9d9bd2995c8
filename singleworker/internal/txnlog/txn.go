package txnlog

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

// Kind is the kind of a transaction.
type Kind int

// The kinds.
const (
	// Other changes no node's data: a refused request, which takes a zxid, a change of an access
	// control list, or a type that this version does not know.
	Other Kind = iota
	// Connect begins a session.
	Connect
	// Close ends one, with its ephemeral nodes. Ops lists their deletion, if the log has it.
	Close
	// Write changes nodes.
	Write
)

// OpType is the kind of an operation on a node.
type OpType int

// The operations.
const (
	Create OpType = iota + 1
	Delete
	SetData
	Check // of a version, in a transaction with others
)

func (t OpType) String() string {
	switch t {
	case Create:
		return "create"
	case Delete:
		return "delete"
	case SetData:
		return "set"
	case Check:
		return "check"
	}
	return "?"
}

// Op is one operation of a transaction.
type Op struct {
	Type OpType
	Path string
	Data []byte // read only
	// Version is the version of the data after SetData. Check has one more than the version that it
	// has checked.
	Version int32
	// Owner is the session that an ephemeral node ends with, or 0.
	Owner int64
	// ACL says who may do what with the node that Create makes.
	ACL []ACL
	// Born is how many children the parent has had with the one that Create makes; -1 in an old log.
	Born int32
	// Vanishes says that the server deletes the node that Create makes by itself: a container, or a
	// node with a time to live.
	Vanishes bool
}

// ACL is one entry of an access control list.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// Access is a change of a node's access control list.
type Access struct {
	Path    string
	ACL     []ACL
	Version int32 // of the list, after it
}

// Txn is one transaction: all of its operations were applied, or none.
type Txn struct {
	Zxid    int64
	Session int64
	Time    time.Time // by the leader's wall clock
	Kind    Kind
	Timeout time.Duration // of the session that Connect begins
	Ops     []Op
	Access  *Access // nil unless Kind is Other
	Code    int32   // ZooKeeper's, of a refused request
	Bytes   int     // of its record in the log

	// True is when that was, in a simulation, whose server's clock may be wrong; zero: as Time says.
	True time.Time
}

// At is when the transaction was made, as far as that is known: the time between two is judged by
// it. Nodes are dated by Time.
func (t *Txn) At() time.Time {
	if t.True.IsZero() {
		return t.Time
	}
	return t.True
}

// Follows reports whether a zxid can be the next one after another: no transaction is missing in
// between, as far as can be told. A new leader starts to count again.
func Follows(zxid, last int64) bool {
	const counter = 1<<zxids.EpochBits - 1
	return zxid == last+1 || zxids.Epoch(zxid) > zxids.Epoch(last) && zxid&counter == 1
}

// Node is a node in a snapshot.
type Node struct {
	Path         string
	Data         []byte
	Czxid, Mzxid int64 // that created it, that last wrote its data
	Pzxid        int64 // that last created or deleted a child of it
	Ctime, Mtime time.Time
	Version      int32
	Born         int32 // how many children it has had
	Aversion     int32 // of its access control list
	ACL          int64 // the key of that list in the snapshot's table, or OpenACL
	Owner        int64 // the session of an ephemeral node, or 0
}

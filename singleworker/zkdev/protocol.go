package zkdev

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// An Op is the type of a request, with ZooKeeper's number.
type Op int32

// The operations. OpAny stands for all of them in Server.Control.
const (
	OpAny           Op = 0
	OpConnect       Op = -10 // a new session, or a reconnect
	OpCloseSession  Op = -11
	OpPing          Op = 11
	OpAuth          Op = 100
	OpCreate        Op = 1
	OpCreate2       Op = 15
	OpDelete        Op = 2
	OpExists        Op = 3
	OpGetData       Op = 4
	OpSetData       Op = 5
	OpGetACL        Op = 6
	OpSetACL        Op = 7
	OpGetChildren   Op = 8
	OpGetChildren2  Op = 12
	OpGetEphemerals Op = 103
	OpSync          Op = 9
	OpCheck         Op = 13
	OpMulti         Op = 14
	OpMultiRead     Op = 22
	OpSetWatches    Op = 101
)

// String returns ZooKeeper's name of the operation, such as "getData".
func (op Op) String() string { return wire.Op(op).String() }

// A Code is the result of a request, with ZooKeeper's number.
type Code int32

// The results.
const (
	OK                      Code = 0
	RuntimeInconsistency    Code = -2
	ConnectionLoss          Code = -4
	MarshallingError        Code = -5
	Unimplemented           Code = -6
	OperationTimeout        Code = -7
	BadArguments            Code = -8
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
	InvalidACL              Code = -114
	AuthFailed              Code = -115
	SessionMoved            Code = -118
)

// String returns the name of the result, such as "no node".
func (c Code) String() string { return wire.Code(c).String() }

// A Txn is one write that the server applied or refused. Each operation of a multi is a Txn
// with the same Zxid, and so is each ephemeral node removed by the end of a session.
type Txn struct {
	Zxid    int64
	Time    time.Time
	Session int64
	Op      Op
	Path    string
	Data    []byte // read only
	Version int32  // of the data after the write; the expected version if it was refused
	Owner   int64  // the session that owns a created ephemeral node, else 0
	Expired bool   // the session timed out, rather than being closed by its client
	Code    Code
}

func newTxn(t *tree.Txn) Txn {
	return Txn{
		Zxid: t.Zxid, Time: t.Time, Session: t.Session, Op: Op(t.Op), Path: t.Path, Data: t.Data,
		Version: t.Version, Owner: t.Owner, Expired: t.Expired, Code: Code(t.Code),
	}
}

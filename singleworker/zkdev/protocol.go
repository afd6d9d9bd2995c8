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
	OpConnect          = Op(wire.OpConnect) // a new session, or a reconnect
	OpCloseSession     = Op(wire.OpCloseSession)
	OpPing             = Op(wire.OpPing)
	OpAuth             = Op(wire.OpAuth)
	OpCreate           = Op(wire.OpCreate)
	OpCreate2          = Op(wire.OpCreate2)
	OpDelete           = Op(wire.OpDelete)
	OpExists           = Op(wire.OpExists)
	OpGetData          = Op(wire.OpGetData)
	OpSetData          = Op(wire.OpSetData)
	OpGetACL           = Op(wire.OpGetACL)
	OpSetACL           = Op(wire.OpSetACL)
	OpGetChildren      = Op(wire.OpGetChildren)
	OpGetChildren2     = Op(wire.OpGetChildren2)
	OpGetEphemerals    = Op(wire.OpGetEphemerals)
	OpSync             = Op(wire.OpSync)
	OpCheck            = Op(wire.OpCheck)
	OpMulti            = Op(wire.OpMulti)
	OpMultiRead        = Op(wire.OpMultiRead)
	OpSetWatches       = Op(wire.OpSetWatches)
)

// String returns ZooKeeper's name of the operation, such as "getData".
func (op Op) String() string { return wire.Op(op).String() }

// A Code is the result of a request, with ZooKeeper's number.
type Code int32

// The results.
const (
	OK                      = Code(wire.OK)
	RuntimeInconsistency    = Code(wire.RuntimeInconsistency)
	ConnectionLoss          = Code(wire.ConnectionLoss)
	MarshallingError        = Code(wire.MarshallingError)
	Unimplemented           = Code(wire.Unimplemented)
	OperationTimeout        = Code(wire.OperationTimeout)
	BadArguments            = Code(wire.BadArguments)
	NoNode                  = Code(wire.NoNode)
	NoAuth                  = Code(wire.NoAuth)
	BadVersion              = Code(wire.BadVersion)
	NoChildrenForEphemerals = Code(wire.NoChildrenForEphemerals)
	NodeExists              = Code(wire.NodeExists)
	NotEmpty                = Code(wire.NotEmpty)
	SessionExpired          = Code(wire.SessionExpired)
	InvalidACL              = Code(wire.InvalidACL)
	AuthFailed              = Code(wire.AuthFailed)
	SessionMoved            = Code(wire.SessionMoved)
	NotReadOnly             = Code(wire.NotReadOnly)
)

// String returns the name of the result, such as "no node".
func (c Code) String() string { return wire.Code(c).String() }

// A Txn is one write that the server applied or refused. Each operation of a multi is a Txn
// with the same Zxid, and so is each ephemeral node removed by the end of a session.
type Txn struct {
	Zxid    int64
	Time    time.Time
	Written time.Time // Time by the server's clock, as nodes have it: see SetClock
	Session int64
	Op      Op
	Path    string
	Data    []byte // read only
	Version int32  // of the data after the write; the expected version if it was refused
	Owner   int64  // the session that owns a created ephemeral node, else 0
	Expired bool   // the session timed out, rather than being closed by its client
	Code    Code
}

func newTxn(t *tree.Txn, ahead time.Duration) Txn {
	return Txn{
		Zxid: t.Zxid, Time: t.Time, Written: t.Time.Add(ahead), Session: t.Session, Op: Op(t.Op), Path: t.Path, Data: t.Data,
		Version: t.Version, Owner: t.Owner, Expired: t.Expired, Code: Code(t.Code),
	}
}

package zkdev

import (
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// The words of the protocol that tests need, with ZooKeeper's numbers.
type (
	// Op is the type of a request.
	Op = wire.Op

	// Code is a result of a request.
	Code = wire.Code

	// A Txn is one write as it was applied or refused. The operations of a multi are one
	// each, with the same zxid, and so are the ephemeral nodes that a closed session leaves.
	Txn = tree.Txn
)

// The operations. OpAny is all of them, for Control.
const (
	OpAny           Op = 0
	OpConnect          = wire.OpConnect // also a client that comes back
	OpCloseSession     = wire.OpCloseSession
	OpPing             = wire.OpPing
	OpAuth             = wire.OpAuth
	OpCreate           = wire.OpCreate
	OpCreate2          = wire.OpCreate2
	OpDelete           = wire.OpDelete
	OpExists           = wire.OpExists
	OpGetData          = wire.OpGetData
	OpSetData          = wire.OpSetData
	OpGetACL           = wire.OpGetACL
	OpSetACL           = wire.OpSetACL
	OpGetChildren      = wire.OpGetChildren
	OpGetChildren2     = wire.OpGetChildren2
	OpGetEphemerals    = wire.OpGetEphemerals
	OpSync             = wire.OpSync
	OpCheck            = wire.OpCheck
	OpMulti            = wire.OpMulti
	OpMultiRead        = wire.OpMultiRead
	OpSetWatches       = wire.OpSetWatches
)

// The results.
const (
	OK                      = wire.OK
	RuntimeInconsistency    = wire.RuntimeInconsistency
	ConnectionLoss          = wire.ConnectionLoss
	MarshallingError        = wire.MarshallingError
	Unimplemented           = wire.Unimplemented
	OperationTimeout        = wire.OperationTimeout
	BadArguments            = wire.BadArguments
	NoNode                  = wire.NoNode
	NoAuth                  = wire.NoAuth
	BadVersion              = wire.BadVersion
	NoChildrenForEphemerals = wire.NoChildrenForEphemerals
	NodeExists              = wire.NodeExists
	NotEmpty                = wire.NotEmpty
	SessionExpired          = wire.SessionExpired
	InvalidACL              = wire.InvalidACL
	AuthFailed              = wire.AuthFailed
	SessionMoved            = wire.SessionMoved
)

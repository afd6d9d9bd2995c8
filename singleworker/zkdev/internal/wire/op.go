package wire

import "strconv"

// Op is the type of a request.
type Op int32

// The operations of the protocol, with ZooKeeper's numbers.
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpConnect              Op = -10 // ZooKeeper's createSession
	OpCloseSession         Op = -11
	OpError                Op = -1
)

var opNames = map[Op]string{
	OpNotification: "notification", OpCreate: "create", OpDelete: "delete", OpExists: "exists",
	OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
	OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2",
	OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer", OpCreateTTL: "createTTL",
	OpMultiRead: "multiRead", OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl",
	OpGetEphemerals: "getEphemerals", OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2: "setWatches2", OpAddWatch: "addWatch", OpWhoAmI: "whoAmI",
	OpConnect: "connect", OpCloseSession: "closeSession", OpError: "error",
}

func (op Op) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return "op " + strconv.Itoa(int(op))
}

// Code is the result of a request.
type Code int32

// The results that this server sends, with ZooKeeper's numbers.
const (
	OK                      Code = 0
	RuntimeInconsistency    Code = -2
	MarshallingError        Code = -5
	Unimplemented           Code = -6
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
	NotReadOnly             Code = -119
	NoWatcher               Code = -121
	ReconfigDisabled        Code = -123
	ConnectionLoss          Code = -4
	OperationTimeout        Code = -7
)

var codeNames = map[Code]string{
	OK: "ok", RuntimeInconsistency: "runtime inconsistency", ConnectionLoss: "connection loss",
	MarshallingError: "marshalling error", Unimplemented: "unimplemented", OperationTimeout: "operation timeout",
	BadArguments: "bad arguments", NoNode: "no node", NoAuth: "no auth", BadVersion: "bad version",
	NoChildrenForEphemerals: "no children for ephemerals", NodeExists: "node exists", NotEmpty: "not empty",
	SessionExpired: "session expired", InvalidACL: "invalid ACL", AuthFailed: "auth failed",
	SessionMoved: "session moved", NotReadOnly: "not read-only", NoWatcher: "no watcher", ReconfigDisabled: "reconfig disabled",
}

func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code " + strconv.Itoa(int(c))
}

// EventType is the type of a watch event.
type EventType int32

// The events of one-shot watches.
const (
	NodeCreated         EventType = 1
	NodeDeleted         EventType = 2
	NodeDataChanged     EventType = 3
	NodeChildrenChanged EventType = 4
)

// The flags of a create request. They are modes, not bits: a container is 4.
const (
	FlagPersistent              int32 = 0
	FlagEphemeral               int32 = 1
	FlagSequential              int32 = 2
	FlagEphemeralSequential     int32 = 3
	FlagContainer               int32 = 4
	FlagTTL                     int32 = 5
	FlagPersistentSequentialTTL int32 = 6
)

// The permissions of an ACL, as bits.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// Reserved xids, which no request has.
const (
	XidEvent int32 = -1
	XidPing  int32 = -2
)

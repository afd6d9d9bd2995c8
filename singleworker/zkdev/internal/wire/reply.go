package wire

// PasswordLen is the length of a session's password.
const PasswordLen = 16

// A Stat describes a node.
type Stat struct {
	Czxid, Mzxid                int64
	Ctime, Mtime                int64 // Unix milliseconds
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// A Body is the record of a reply.
type Body interface {
	append(b []byte) []byte
}

// The bodies, by the shape of their records.
type (
	// PathBody: create, sync.
	PathBody string
	// NullBody: sync of no path.
	NullBody struct{}
	// StatBody: exists, setData, setACL.
	StatBody Stat
	// PathStatBody: create2.
	PathStatBody struct {
		Path string
		Stat Stat
	}
	// DataBody: getData.
	DataBody struct {
		Data []byte
		Stat Stat
	}
	// NamesBody: getChildren, getEphemerals.
	NamesBody []string
	// NamesStatBody: getChildren2.
	NamesStatBody struct {
		Names []string
		Stat  Stat
	}
	// ACLBody: getACL.
	ACLBody struct {
		ACL  []ACL
		Stat Stat
	}
	// IntBody: getAllChildrenNumber, and the error of an operation of a multi.
	IntBody int32
	// IDsBody: whoAmI.
	IDsBody []ID
	// MultiBody: multi, multiRead.
	MultiBody []Result
)

// A Result is the result of one operation of a multi. Its type is OpError if the operation failed
// or was not applied because another failed.
type Result struct {
	Op   Op
	Code Code
	Body Body // nil for delete and check
}

func (s Stat) append(b []byte) []byte {
	b = appendInt64(appendInt64(b, s.Czxid), s.Mzxid)
	b = appendInt64(appendInt64(b, s.Ctime), s.Mtime)
	b = appendInt32(appendInt32(appendInt32(b, s.Version), s.Cversion), s.Aversion)
	b = appendInt64(b, s.EphemeralOwner)
	b = appendInt32(appendInt32(b, s.DataLength), s.NumChildren)
	return appendInt64(b, s.Pzxid)
}

func (v PathBody) append(b []byte) []byte     { return appendString(b, string(v)) }
func (NullBody) append(b []byte) []byte       { return appendInt32(b, -1) }
func (v StatBody) append(b []byte) []byte     { return Stat(v).append(b) }
func (v PathStatBody) append(b []byte) []byte { return v.Stat.append(appendString(b, v.Path)) }
func (v DataBody) append(b []byte) []byte     { return v.Stat.append(appendBuffer(b, v.Data)) }
func (v NamesBody) append(b []byte) []byte    { return appendStrings(b, v) }
func (v NamesStatBody) append(b []byte) []byte {
	return v.Stat.append(appendStrings(b, v.Names))
}
func (v IntBody) append(b []byte) []byte { return appendInt32(b, int32(v)) }

func (v ACLBody) append(b []byte) []byte {
	b = appendInt32(b, int32(len(v.ACL)))
	for _, acl := range v.ACL {
		b = appendString(appendString(appendInt32(b, acl.Perms), acl.Scheme), acl.ID.ID)
	}
	return v.Stat.append(b)
}

func (v IDsBody) append(b []byte) []byte {
	b = appendInt32(b, int32(len(v)))
	for _, id := range v {
		b = appendString(appendString(b, id.Scheme), id.ID)
	}
	return b
}

func (v MultiBody) append(b []byte) []byte {
	for _, result := range v {
		b = appendMultiHeader(b, result.Op, false, result.Code)
		if result.Body != nil {
			b = result.Body.append(b)
		}
	}
	return appendMultiHeader(b, OpError, true, -1)
}

func appendMultiHeader(b []byte, op Op, done bool, code Code) []byte {
	return appendInt32(appendBool(appendInt32(b, int32(op)), done), int32(code))
}

// ReplyFrame returns the frame of a reply. body may be nil.
func ReplyFrame(xid int32, zxid int64, code Code, body Body) []byte {
	return frame(func(b []byte) []byte {
		b = appendInt32(appendInt64(appendInt32(b, xid), zxid), int32(code))
		if body != nil {
			b = body.append(b)
		}
		return b
	})
}

// stateSyncConnected is the connection state in every event of a running server.
const stateSyncConnected = 3

// EventFrame returns the frame of a watch event.
func EventFrame(t EventType, path string) []byte {
	return frame(func(b []byte) []byte {
		b = appendInt32(appendInt64(appendInt32(b, XidEvent), -1), int32(OK))
		return appendString(appendInt32(appendInt32(b, int32(t)), stateSyncConnected), path)
	})
}

// ConnectFrame returns the frame that answers a connect request. session is 0 if the requested one
// has ended. Only clients that sent the read-only flag get one: whether the server is read-only.
func ConnectFrame(session int64, timeout int32, password [PasswordLen]byte, readOnlyFlag, readOnly bool) []byte {
	return frame(func(b []byte) []byte {
		b = appendInt64(appendInt32(appendInt32(b, 0), timeout), session)
		b = appendBuffer(b, password[:])
		if readOnlyFlag {
			b = appendBool(b, readOnly)
		}
		return b
	})
}

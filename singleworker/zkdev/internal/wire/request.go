package wire

// An ID is an identity of a client, or one to which an ACL grants permissions.
type ID struct {
	Scheme, ID string
}

// An ACL grants permissions to an identity.
type ACL struct {
	Perms int32
	ID
	NoScheme bool // the scheme was null
}

// A Header precedes each request but the first.
type Header struct {
	Xid int32
	Op  Op
}

// A Request is a request of any type; each type uses some of the fields.
type Request struct {
	Header

	Path    string
	NoPath  bool // the path is null and may be
	Data    []byte
	Version int32
	ACL     []ACL
	Flags   int32
	TTL     int64
	Watch   bool
	Kind    int32 // of watches to check or remove
	Watches SetWatches
	Ops     []Request // of a multi
	Refused Code      // of an operation of a multiRead: answered instead of reading, if not OK

	// Malformed is set if the record is invalid; fields after the error are zero.
	Malformed bool
	// Null is set if a required string is null. ZooKeeper mostly treats it like a malformed
	// record.
	Null bool
}

// SetWatches sets the watches of a client that has reconnected.
type SetWatches struct {
	Zxid               int64 // the latest that the client has seen
	Data, Exist, Child []string
	Persistent         []string // of setWatches2, including recursive ones
}

// Auth adds an identity to a connection.
type Auth struct {
	Scheme string
	Token  []byte
}

// DecodeHeader splits a message into its header and its record.
func DecodeHeader(message []byte) (Header, []byte, error) {
	d := decoder{rest: message}
	h := Header{Xid: d.int32(), Op: Op(d.int32())}
	return h, d.rest, d.err
}

// DecodeAuth reads the record of an OpAuth request.
func DecodeAuth(record []byte) (Auth, error) {
	d := decoder{rest: record}
	d.int32() // always 0
	auth := Auth{Scheme: d.text(), Token: d.buffer()}
	if d.null {
		return auth, ErrMalformed
	}
	return auth, d.err
}

// DecodeRequest reads the record of any other request. Bytes after it are ignored, as in ZooKeeper.
func DecodeRequest(h Header, record []byte) Request {
	d := decoder{rest: record}
	r := Request{Header: h}
	switch h.Op {
	case OpMulti, OpMultiRead:
		r.decodeMulti(&d)
	case OpSetWatches, OpSetWatches2:
		r.decodeWatches(&d)
	default:
		r.decodeSimple(&d)
	}
	r.Malformed, r.Null = d.err != nil, d.null
	return r
}

// decodeSimple reads a record that contains no other records. It treats unknown types as having
// none.
func (r *Request) decodeSimple(d *decoder) {
	switch r.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Path, r.Data, r.ACL, r.Flags = d.text(), d.buffer(), d.acls(), d.int32()
		if r.Op == OpCreateTTL {
			r.TTL = d.int64()
		}
	case OpDelete, OpCheck:
		r.Path, r.Version = d.text(), d.int32()
	case OpSetData:
		r.Path, r.Data, r.Version = d.text(), d.buffer(), d.int32()
	case OpSetACL:
		r.Path, r.ACL, r.Version = d.text(), d.acls(), d.int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		r.Path, r.Watch = d.text(), d.bool()
	case OpGetACL, OpGetAllChildrenNumber:
		r.Path = d.text()
	case OpSync, OpGetEphemerals:
		r.Path, r.NoPath = d.nullable()
	case OpCheckWatches, OpRemoveWatches, OpAddWatch:
		r.Path, r.Kind = d.text(), d.int32()
	default:
	}
}

func (r *Request) decodeWatches(d *decoder) {
	w := &r.Watches
	w.Zxid, w.Data, w.Exist, w.Child = d.int64(), d.texts(), d.texts(), d.texts()
	if r.Op == OpSetWatches2 {
		w.Persistent = append(d.texts(), d.texts()...)
	}
}

// decodeMulti reads operations up to the end marker. They must be all writes or all reads:
// ZooKeeper refuses a mixture while decoding.
func (r *Request) decodeMulti(d *decoder) {
	reads := 0
	for {
		h := Header{Op: Op(d.int32())}
		done := d.bool()
		d.int32()
		if d.err != nil || done {
			break
		}
		switch h.Op {
		case OpGetChildren, OpGetData:
			reads++
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck:
		default:
			d.err = ErrMalformed
			return
		}
		op := Request{Header: h}
		op.decodeSimple(d)
		op.Watch = false // a multi never sets watches
		r.Ops = append(r.Ops, op)
	}
	if reads != 0 && reads != len(r.Ops) {
		d.err = ErrMalformed
	}
}

// A Connect is the first message of a connection.
type Connect struct {
	LastZxid      int64
	Timeout       int32 // ms
	Session       int64 // 0 for a new one
	Password      []byte
	HasReadOnly   bool // old clients do not send the flag
	TakesReadOnly bool // the flag: a server that has lost its quorum is good enough
}

// DecodeConnect reads a connect request.
func DecodeConnect(message []byte) (Connect, error) {
	d := decoder{rest: message}
	d.int32() // protocol version; there is only one
	c := Connect{LastZxid: d.int64(), Timeout: d.int32(), Session: d.int64(), Password: d.buffer()}
	if c.HasReadOnly = len(d.rest) > 0; c.HasReadOnly {
		c.TakesReadOnly = d.bool()
	}
	return c, d.err
}

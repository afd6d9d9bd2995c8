package txnlog

import (
	"encoding/binary"
	"errors"
	"time"
)

// ZooKeeper's numbers of transaction types.
const (
	typeError           = -1
	typeCreateSession   = -10
	typeCloseSession    = -11
	typeCreate          = 1
	typeDelete          = 2
	typeSetData         = 5
	typeSetACL          = 7
	typeCheck           = 13
	typeMulti           = 14
	typeCreate2         = 15
	typeCreateContainer = 19
	typeDeleteContainer = 20
	typeCreateTTL       = 21
)

// errShort reports a record that ends before its fields do, or has an impossible length.
var errShort = errors.New("record is cut short")

// fields reads the fields of a record. After an error it returns zero values.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) take(n int) []byte {
	if f.err != nil || n < 0 || n > len(f.rest) {
		f.err = errShort
		return nil
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken
}

func (f *fields) int() int32 {
	if b := f.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (f *fields) long() int64 {
	if b := f.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (f *fields) bool() bool {
	b := f.take(1)
	return b != nil && b[0] != 0
}

// buffer reads a length and as many bytes; a length of -1 means none.
func (f *fields) buffer() []byte {
	n := f.int()
	if n == -1 {
		return nil
	}
	return f.take(int(n))
}

// count reads the length of a vector whose items have at least so many bytes each.
func (f *fields) count(itemBytes int) int {
	n := int(f.int())
	if n < 0 { // -1 means none
		return 0
	}
	if n > len(f.rest)/itemBytes {
		f.err = errShort
		return 0
	}
	return n
}

func (f *fields) acl() (acl []ACL) {
	const perms, lengths = 4, 2 * 4
	for range f.count(perms + lengths) {
		acl = append(acl, ACL{Perms: f.int(), Scheme: string(f.buffer()), ID: string(f.buffer())})
	}
	return acl
}

// decode reads the body of a log entry. Bytes after the record, such as a digest, are ignored.
func decode(body []byte) (Txn, error) {
	f := fields{rest: body}
	t := Txn{Session: f.long()}
	f.int() // the client's number of the request
	t.Zxid = f.long()
	t.Time = time.UnixMilli(f.long())
	switch kind := f.int(); kind {
	case typeCreateSession:
		t.Kind, t.Timeout = Connect, time.Duration(f.int())*time.Millisecond
	case typeCloseSession:
		t.Kind, t.Ops = Close, f.closed()
	case typeMulti:
		t.Kind, t.Ops = Write, f.multi(t.Session)
		if len(t.Ops) == 0 {
			t.Kind = Other // refused
		}
	case typeError:
		t.Code = f.int()
	case typeSetACL:
		t.Access = &Access{Path: string(f.buffer()), ACL: f.acl(), Version: f.int()}
	default:
		if op, known := f.op(kind, t.Session); known {
			t.Kind, t.Ops = Write, []Op{op}
		}
	}
	return t, f.err
}

// closed lists the ephemeral nodes that end with a session. Before version 3.6 a log does not say.
func (f *fields) closed() (ops []Op) {
	if len(f.rest) == 0 {
		return nil
	}
	const length = 4
	for range f.count(length) {
		ops = append(ops, Op{Type: Delete, Path: string(f.buffer())})
	}
	return ops
}

// multi reads the operations of one transaction; none if it was refused.
func (f *fields) multi(session int64) (ops []Op) {
	const kindAndLength = 4 + 4
	refused := false
	for range f.count(kindAndLength) {
		kind := f.int()
		inner := fields{rest: f.buffer(), err: f.err}
		op, known := inner.op(kind, session)
		if f.err = inner.err; f.err != nil {
			return nil
		}
		if refused = refused || kind == typeError; known {
			ops = append(ops, op)
		}
	}
	if refused {
		return nil
	}
	return ops
}

// op reads one operation; known is false for those that change no data.
func (f *fields) op(kind int32, session int64) (op Op, known bool) {
	switch kind {
	case typeCreate, typeCreate2, typeCreateContainer, typeCreateTTL:
		op = Op{Type: Create, Path: string(f.buffer()), Data: f.buffer(), ACL: f.acl(), Born: -1}
		op.Vanishes = kind == typeCreateContainer || kind == typeCreateTTL
		if !op.Vanishes && f.bool() {
			op.Owner = session
		}
		if len(f.rest) > 0 && !op.Vanishes { // not before version 3.4
			op.Born = f.int()
		}
	case typeDelete, typeDeleteContainer:
		op = Op{Type: Delete, Path: string(f.buffer())}
	case typeSetData:
		op = Op{Type: SetData, Path: string(f.buffer()), Data: f.buffer(), Version: f.int()}
	case typeCheck:
		op = Op{Type: Check, Path: string(f.buffer()), Version: f.int()}
	default:
		return Op{}, false
	}
	return op, true
}

package diff

import (
	"encoding/binary"
	"fmt"
)

// Opcodes, with ZooKeeper's numbers.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCheckWatches    = 17
	opRemoveWatches   = 18
	opCreateTTL       = 21
	opMultiRead       = 22
	opAuth            = 100
	opSetWatches      = 101
	opGetEphemerals   = 103
	opCountChildren   = 104
	opSetWatches2     = 105
	opWhoAmI          = 107
	opCloseSession    = -11
	opErrorInAMulti   = -1
	opUnknown         = 99
	bytesOfAMultiMark = 9
)

// A view normalizes values that differ between two servers: zxids count from the start of the test,
// sessions are numbered in the order of their creation, and times are checked and then removed.
type view struct {
	zxid0    int64
	sessions map[int64]int64
	times    map[int64]int64 // of transactions, by zxid
	wrong    string          // what is wrong with the times
}

func newView() *view {
	return &view{sessions: map[int64]int64{0: 0}, times: map[int64]int64{}}
}

func (v *view) addSession(id int64) { v.sessions[id] = int64(len(v.sessions)) }

// frame returns a normalized copy of a reply or an event.
func (v *view) frame(f frame, op int32) (frame, error) {
	if f.zxid > 0 {
		f.zxid -= v.zxid0
	}
	f.body = append([]byte(nil), f.body...)
	if f.xid == xidEvent || f.code != 0 && op != opMultiRead {
		return f, nil
	}
	r := &reader{rest: f.body}
	v.body(r, op)
	if r.short {
		return f, fmt.Errorf("reply to op %d is too short: %x", op, f.body)
	}
	if len(r.rest) > 0 {
		return f, fmt.Errorf("reply to op %d has %d bytes too many: %x", op, len(r.rest), f.body)
	}
	return f, nil
}

func (v *view) body(r *reader, op int32) {
	switch op {
	case opCreate, opSync:
		r.field()
	case opCreate2, opGetData:
		r.field()
		v.stat(r)
	case opExists, opSetData, opSetACL:
		v.stat(r)
	case opGetChildren, opGetEphemerals:
		r.fields(1)
	case opGetChildren2:
		r.fields(1)
		v.stat(r)
	case opGetACL:
		for range r.i32() {
			r.take(4)
			r.field()
			r.field()
		}
		v.stat(r)
	case opWhoAmI:
		r.fields(2)
	case opCountChildren, opErrorInAMulti:
		r.take(4)
	case opMulti, opMultiRead:
		for !r.short {
			kind := r.i32()
			done := r.take(1)
			r.take(4)
			if len(done) == 1 && done[0] != 0 {
				break
			}
			v.body(r, kind)
		}
	}
}

// stat normalizes the fields of a stat in place.
func (v *view) stat(r *reader) {
	b := r.take(68)
	if b == nil {
		return
	}
	v.time(b[0:8], b[16:24])
	v.time(b[8:16], b[24:32])
	for _, at := range []int{0, 8, 60} {
		if zxid := int64(binary.BigEndian.Uint64(b[at:])); zxid != 0 {
			binary.BigEndian.PutUint64(b[at:], uint64(zxid-v.zxid0))
		}
	}
	owner := int64(binary.BigEndian.Uint64(b[44:]))
	number, ok := v.sessions[owner]
	if !ok {
		number = -1
	}
	binary.BigEndian.PutUint64(b[44:], uint64(number))
}

// time checks that all changes of one transaction have the same time.
func (v *view) time(zxid, ms []byte) {
	z, t := int64(binary.BigEndian.Uint64(zxid)), int64(binary.BigEndian.Uint64(ms))
	if known, ok := v.times[z]; ok && known != t {
		v.wrong = fmt.Sprintf("zxid %d is of %d and of %d", z-v.zxid0, known, t)
	}
	v.times[z] = t
	binary.BigEndian.PutUint64(ms, 0)
}

// A reader walks over the fields of a record.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) i32() int32 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// field skips a string or buffer, which may be null.
func (r *reader) field() []byte {
	n := r.i32()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) fields(each int) {
	for range r.i32() {
		for range each {
			r.field()
		}
	}
}

package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The library decodes replies in goroutines that nobody can recover, and it trusts lengths and
// counts: a short reply makes it panic, a count of two thousand millions makes it allocate as much.
// So each frame is read whole and walked through, by the type of the request that it answers,
// before the library sees it. A frame that does not add up ends the connection, like one that
// breaks.

// errMalformed is returned for a frame that violates the protocol.
var errMalformed = errors.New("malformed reply")

const (
	lengthBytes = 4
	headerBytes = 4 + 8 + 4                     // xid, zxid, error
	statBytes   = 8*4 + 4*3 + 8 + 4*2 + 8       // czxid ... pzxid
	greetBytes  = 4 + 4 + 8 + 4 + passwordBytes // version, timeout, session, password

	passwordBytes = 16
)

// readFrame reads a frame with its length.
func readFrame(conn net.Conn, longest uint32) ([]byte, error) {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > longest {
		return nil, tooLong(length, longest)
	}
	return readBody(conn, head[:], length)
}

// readBody reads the rest of a frame, behind its length.
func readBody(conn net.Conn, head []byte, length uint32) ([]byte, error) {
	frame := make([]byte, lengthBytes+int(length))
	copy(frame, head)
	_, err := io.ReadFull(conn, frame[lengthBytes:])
	return frame, err
}

func tooLong(length, longest uint32) error {
	return fmt.Errorf("%w: %d bytes long, at most %d are read", errMalformed, length, longest)
}

// readReply is readFrame for frames after the greeting. Of a list of children, or a reply to many
// reads, that is too long, it reads the header only and skips the rest: the caller gets ErrTooLong,
// and the connection stays. Otherwise one node with too many children would end it as often as they
// are asked for.
func (r *requests) readReply(conn net.Conn) ([]byte, error) {
	var head [lengthBytes + headerBytes]byte
	if _, err := io.ReadFull(conn, head[:lengthBytes]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length <= maxFrame {
		return readBody(conn, head[:lengthBytes], length)
	}
	long := r.long()
	if len(long) == 0 || length > maxSkipped {
		return nil, tooLong(length, maxFrame)
	}
	if _, err := io.ReadFull(conn, head[lengthBytes:]); err != nil {
		return nil, err
	}
	if xid := int32(binary.BigEndian.Uint32(head[lengthBytes:])); !long[xid] {
		return nil, tooLong(length, maxFrame)
	}
	if _, err := io.CopyN(io.Discard, conn, int64(length)-headerBytes); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(head[:], headerBytes)
	binary.BigEndian.PutUint32(head[len(head)-4:], codeTooLong)
	return head[:], nil
}

// codeTooLong is -117, which the library knows as ErrNothing. No server sends it.
const codeTooLong = 1<<32 - 117

// A read-only server refuses writes, and sync, with a code that the library does not know. It gets
// another in its place, by which servers refuse a reconfiguration. Nobody asks for one.
const (
	codeNotReadOnly      = -119
	codeReconfigDisabled = 1<<32 - 123
)

// long returns the requests, not answered yet, whose replies can be too long.
func (r *requests) long() map[int32]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	long := make(map[int32]bool)
	for xid, made := range r.made {
		if op := made.op; op == opChildren || op == opChildren2 || op == opMultiRead {
			long[xid] = true
		}
	}
	return long
}

// parseGreeting checks a connect response and returns the session timeout that it grants.
func parseGreeting(body []byte) (timeout time.Duration, err error) {
	if len(body) < greetBytes {
		return 0, errNoGreeting
	}
	ms := int32(binary.BigEndian.Uint32(body[4:]))
	session := binary.BigEndian.Uint64(body[8:])
	password := binary.BigEndian.Uint32(body[16:])
	if password != passwordBytes || ms < 0 || ms == 0 && session != 0 {
		return 0, fmt.Errorf("%w: a session timeout of %d ms and a password of %d bytes", errNoGreeting, ms, password)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// The request types, and xids with a meaning, that the library uses.
const (
	opCreate, opDelete, opExists, opGetData, opSetData, opGetACL, opSetACL = 1, 2, 3, 4, 5, 6, 7
	opChildren, opSync, opChildren2, opCheck, opMulti, opCreate2, opFailed = 8, 9, 12, 13, 14, 15, -1

	xidEvent, xidPing = -1, -2
)

// A client has seen the transactions up to the last reply to it: a server that is behind that does
// not continue its session, and a setWatches reports changes since then. The library notes it in
// one goroutine and reads it in another, perhaps when a reply on the new connection has come
// before; then it never hears of changes in between. So the library is told of none, and the
// connection puts in the last transaction that the session had seen before it.
const (
	replyZxidAt      = lengthBytes + 4       // behind the xid
	replyCodeAt      = replyZxidAt + 8       // behind that
	setWatchesZxidAt = lengthBytes + 4 + 4   // behind xid and type
	connectZxidAt    = lengthBytes + 4       // behind the version
	connectSessionAt = connectZxidAt + 8 + 4 // behind that and the timeout

	greetTimeoutAt  = lengthBytes + 4    // behind the version
	greetSessionAt  = greetTimeoutAt + 4 // behind the timeout
	greetPasswordAt = greetSessionAt + 8 // behind the session
	greetReadOnlyAt = lengthBytes + greetBytes
)

// closeSession is a request that ends the session: its length, an xid, and type -11.
var closeSession = []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}

// withZxid returns a copy of a frame with a transaction in that place.
func withZxid(frame []byte, at int, zxid int64) []byte {
	frame = bytes.Clone(frame)
	if len(frame) >= at+8 {
		binary.BigEndian.PutUint64(frame[at:], uint64(zxid))
	}
	return frame
}

// withReadOnly returns a connect request with the flag by which a read-only server lets a client
// in. The library does not send it.
func withReadOnly(frame []byte) []byte {
	frame = append(bytes.Clone(frame), 1)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthBytes))
	return frame
}

// requests knows the type of each request that is not answered yet, by xid, except for pings.
type requests struct {
	session *session
	seen    int64    // the last transaction that the session had seen when the connection began
	known   *known   // of the server
	traffic *Traffic // or nil

	mu       sync.Mutex
	made     map[int32]made  // by xid
	bulks    map[int32]*bulk // by xid
	watching []*bulk         // whose watches the server has not confirmed, in the order of sending
}

// made is a request that is not answered yet.
type made struct {
	op      int32
	at      time.Time
	instead []byte // of the reply, for the library; nil: the reply
}

// send notes a request, which the library writes with one call, and returns the frame to send for
// it: itself, or the bulk request for which it stands.
func (r *requests) send(frame []byte) []byte {
	w := walker{rest: frame}
	w.skip(lengthBytes)
	xid, op := int32(w.uint32()), int32(w.uint32())
	if w.short || xid == xidPing {
		return frame
	}
	if op == opSetWatches { // the library's
		frame = withZxid(frame, setWatchesZxidAt, r.seen)
	}
	var b *bulk
	if op == opGetData {
		b = r.session.bulk(string(w.buffer()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made, r.bulks = make(map[int32]made), make(map[int32]*bulk)
	}
	if instead := r.instead(frame, xid, op, b); instead != nil {
		r.made[xid] = made{opExists, time.Now(), instead}
		return appendFrame(nil, xid, opExists, func(body []byte) []byte { return append(appendText(body, "/"), 0) })
	}
	if b != nil {
		op = opMultiRead
	}
	r.made[xid] = made{op, time.Now(), nil}
	if b == nil {
		return frame
	}
	r.bulks[xid] = b
	if b.setting != nil {
		r.watching = append(r.watching, b)
	}
	return b.frames(xid)
}

// answered returns a request, once, and the bulk request if it is one.
func (r *requests) answered(xid int32) (request made, b *bulk, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, ok = r.made[xid]
	b = r.bulks[xid]
	delete(r.made, xid)
	delete(r.bulks, xid)
	if ok {
		r.traffic.answered(request.op, time.Since(request.at))
	}
	return request, b, ok
}

// receive walks through a reply or an event and returns the frame for the library: itself, unless
// it has to do with a bulk request.
func (r *requests) receive(frame []byte) ([]byte, error) {
	body := frame[lengthBytes:]
	if len(body) < headerBytes {
		return nil, fmt.Errorf("%w: %d bytes long, at least %d are needed", errMalformed, len(body), headerBytes)
	}
	w := walker{rest: body}
	xid := int32(w.uint32())
	zxid := int64(w.uint64())
	code := int32(w.uint32())
	if xid > 0 && zxid > 0 {
		r.session.zxid.Store(zxid)
		binary.BigEndian.PutUint64(frame[replyZxidAt:], 0)
	}
	switch xid {
	case xidEvent:
		kind := w.uint32()
		w.skip(4) // state
		path := w.buffer()
		w.short = w.short || len(w.rest) > 0
		if kind == eventDeleted && r.hold(frame, string(path)) {
			return nil, nil
		}
		return frame, w.verdict("event")
	case xidSetWatches:
		return nil, r.watched(code)
	case xidPing: // several may wait for a slow server, and the library takes no notice of the answers
		return frame, nil
	}
	request, b, known := r.answered(xid)
	switch request.op {
	case opSetWatches:
		r.known.setWatches.answered(code)
	case opMultiRead:
		r.known.multiRead.answered(code)
	}
	switch {
	case !known: // the request that it was meant for would wait forever
		return nil, fmt.Errorf("%w: to request %d, which was not made", errMalformed, xid)
	case request.instead != nil:
		return request.instead, nil
	case b != nil:
		return b.answer(frame, code)
	case code == codeNotReadOnly:
		binary.BigEndian.PutUint32(frame[replyCodeAt:], codeReconfigDisabled)
		return frame, nil
	case code != 0:
		return frame, nil // the library does not decode the rest
	}
	w.reply(request.op)
	return frame, w.verdict(fmt.Sprintf("reply to a request of type %d", request.op))
}

// walker walks through a body. After the first step that does not fit, short is set.
type walker struct {
	rest  []byte
	short bool
}

func (w *walker) verdict(what string) error {
	if w.short {
		return fmt.Errorf("%w: %s", errMalformed, what)
	}
	return nil
}

func (w *walker) skip(n int) {
	if n > len(w.rest) {
		w.short, w.rest = true, nil
		return
	}
	w.rest = w.rest[n:]
}

func (w *walker) uint32() uint32 {
	rest := w.rest
	if w.skip(4); w.short {
		return 0
	}
	return binary.BigEndian.Uint32(rest)
}

func (w *walker) uint64() uint64 { return uint64(w.uint32())<<32 | uint64(w.uint32()) }

// buffer walks over bytes or a string, and returns them. A length of -1 means that there are no
// bytes.
func (w *walker) buffer() []byte {
	n := int32(w.uint32())
	if n < -1 {
		w.short = true
	}
	rest := w.rest
	if w.skip(max(0, int(n))); w.short || n < 0 {
		return nil
	}
	return rest[:n]
}

// buffers walks over a vector whose elements are so many buffers behind so many other bytes. The
// library takes a count of -1 for four thousand millions; an element has four bytes or more, so
// none that is too large gets far.
func (w *walker) buffers(perElement, before int) {
	for n := w.uint32(); n > 0 && !w.short; n-- {
		w.skip(before)
		for range perElement {
			w.buffer()
		}
	}
}

// reply walks over the body of a reply.
func (w *walker) reply(op int32) {
	switch op {
	case opCreate, opSync:
		w.buffer()
	case opCreate2, opGetData:
		w.buffer()
		w.skip(statBytes)
	case opExists, opSetData, opSetACL:
		w.skip(statBytes)
	case opChildren:
		w.buffers(1, 0)
	case opChildren2:
		w.buffers(1, 0)
		w.skip(statBytes)
	case opGetACL:
		w.buffers(2, 4)
		w.skip(statBytes)
	case opMulti:
		w.results()
	}
}

// results walks over the results of a transaction, up to the one that says that it is the last.
func (w *walker) results() {
	for !w.short {
		op, last := w.multiHeader()
		switch {
		case last:
			return
		case op == opFailed:
			w.skip(4)
		case op == opCreate || op == opCreate2 || op == opSetData:
			w.reply(op)
		case op != opDelete && op != opCheck:
			w.short = true
		}
	}
}

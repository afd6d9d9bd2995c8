package zkconn

import (
	"encoding/binary"
	"sync/atomic"
)

// Not all servers know setWatches and multiRead. One that refuses them is asked no more. One that
// hangs up instead, as older ClickHouse Keepers do by their source, would do so each time that a
// client is back: it is taken to know a request as little, once it has hung up on it twice in a row
// and has never answered it. Until the process ends, it is asked for each node by itself, and the
// watches of an earlier connection are not set again, but told as changes.

// known is what a connection has found out about a server. It is safe for concurrent use.
type known struct{ setWatches, multiRead trial }

// A trial is of one type of request. Its number counts connections that have ended on it, and is
// answers once one was answered.
type trial struct{ ended atomic.Int32 }

const (
	enough  = 2
	answers = -1
)

func (t *trial) without() bool { return t.ended.Load() >= enough }

// answered notes an answer. A refusal is one, too.
func (t *trial) answered(code int32) {
	if code == codeUnimplemented {
		t.ended.Store(enough)
	} else if !t.without() {
		t.ended.Store(answers)
	}
}

// hungUp notes the end of a connection on which the request was not answered. It reports whether
// that was the one by which the server is taken not to know it.
func (t *trial) hungUp() bool {
	ended := t.ended.Load()
	return ended != answers && t.ended.CompareAndSwap(ended, ended+1) && ended+1 == enough
}

// knownOf returns the findings about the server at an address.
func (h *hosts) knownOf(address string) *known {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[address] == nil {
		if h.known == nil {
			h.known = make(map[string]*known)
		}
		h.known[address] = new(known)
	}
	return h.known[address]
}

// readsSingly reports whether the server of the session takes no bulk requests, as far as is known.
func (s *session) readsSingly() bool {
	conn := s.current.Load()
	return conn != nil && (conn.requests.known.multiRead.without() || conn.requests.known.setWatches.without())
}

// hungUp notes that the server has ended the connection. It returns the name of the request that
// the server is taken not to know from now on, or "".
func (r *requests) hungUp() (unknown string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waits := func(op int32) bool {
		for _, made := range r.made {
			if made.op == op {
				return true
			}
		}
		return false
	}
	switch {
	case (len(r.watching) > 0 || waits(opSetWatches)) && r.known.setWatches.ended.Load() != answers:
		if r.known.setWatches.hungUp() {
			return "setWatches"
		}
	case waits(opMultiRead) && r.known.multiRead.hungUp():
		return "multiRead"
	}
	return ""
}

// instead returns the answer that the library gets to a request that the server does not know, or
// nil for any other request. The server is sent an exists of the root in its place, which every
// client may ask for.
func (r *requests) instead(frame []byte, xid, op int32, b *bulk) []byte {
	header := appendInt32(appendInt32(nil, headerBytes), xid)
	header = binary.BigEndian.AppendUint64(header, 0) // the zxid
	switch {
	case b != nil && (r.known.multiRead.without() || b.setting != nil && r.known.setWatches.without()):
		b.code = codeUnimplemented
		return appendInt32(header, codeUnimplemented)
	case op == opSetWatches && r.known.setWatches.without():
		return append(changes(frame), appendInt32(header, 0)...)
	}
	return nil
}

// changes returns an event for each watch that a setWatches asks for.
func changes(setWatches []byte) (events []byte) {
	const (
		created, changed, children = 1, 3, 4
		connected                  = 3 // the state of the session
	)
	w := walker{rest: setWatches[setWatchesZxidAt+8:]}
	for _, kind := range []int32{changed, created, children} {
		for n := w.uint32(); n > 0 && !w.short; n-- {
			path := w.buffer()
			if w.short {
				return events
			}
			events = appendFrame(events, xidEvent, -1, func(body []byte) []byte { // the zxid is -1, too
				body = appendInt32(appendInt32(body, -1), 0)
				return appendText(appendInt32(appendInt32(body, kind), connected), string(path))
			})
		}
	}
	return events
}

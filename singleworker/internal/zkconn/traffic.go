package zkconn

import "sync/atomic"

// Traffic counts what a Conn sends and receives, over all its connections. Safe for concurrent use.
type Traffic struct {
	sent, received atomic.Uint64
	requests       [len(kindNames)]atomic.Uint64 // by kind
}

// Kinds of requests, as indices.
const (
	kindOther = iota // such as those that repeat credentials and end a session
	kindCreate
	kindDelete
	kindExists
	kindGet
	kindSet
	kindChildren
	kindSync
	kindMulti
	kindMultiRead
	kindSetWatches
	kindPing
)

var kindNames = [...]string{
	kindOther: "other", kindCreate: "create", kindDelete: "delete", kindExists: "exists", kindGet: "get", kindSet: "set", kindChildren: "children",
	kindSync: "sync", kindMulti: "multi", kindMultiRead: "multi_read", kindSetWatches: "set_watches", kindPing: "ping",
}

const opPing = 11

func kindOf(op int32) int {
	switch op {
	case opCreate, opCreate2:
		return kindCreate
	case opDelete:
		return kindDelete
	case opExists:
		return kindExists
	case opGetData:
		return kindGet
	case opSetData:
		return kindSet
	case opChildren, opChildren2:
		return kindChildren
	case opSync:
		return kindSync
	case opMulti:
		return kindMulti
	case opMultiRead:
		return kindMultiRead
	case opSetWatches:
		return kindSetWatches
	case opPing:
		return kindPing
	}
	return kindOther
}

// send counts whole requests.
func (t *Traffic) send(frames []byte) {
	if t == nil {
		return
	}
	t.sent.Add(uint64(len(frames)))
	for w := (walker{rest: frames}); len(w.rest) > 0 && !w.short; {
		frame := walker{rest: w.buffer()}
		frame.skip(4) // xid
		if op := int32(frame.uint32()); !frame.short {
			t.requests[kindOf(op)].Add(1)
		}
	}
}

// receive counts a reply or an event.
func (t *Traffic) receive(frame []byte) {
	if t != nil {
		t.received.Add(uint64(len(frame)))
	}
}

// Bytes is how many bytes were sent in requests, and received in replies and events. Replies that were too long to be read count for
// their header.
func (t *Traffic) Bytes() (sent, received uint64) { return t.sent.Load(), t.received.Load() }

// Requests is how many requests were sent, by kind: all kinds.
func (t *Traffic) Requests() map[string]uint64 {
	counts := make(map[string]uint64, len(kindNames))
	for kind, name := range kindNames {
		counts[name] = t.requests[kind].Load()
	}
	return counts
}

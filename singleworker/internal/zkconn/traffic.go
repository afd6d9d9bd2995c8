package zkconn

import (
	"context"
	"sync/atomic"
	"time"
)

// Traffic counts the frames and bytes of a Conn, over all its connections. Safe for concurrent use.
type Traffic struct {
	sent, received atomic.Uint64
	requests       [len(kindNames)]atomic.Uint64 // by kind
	took           [len(kindNames)]times         // likewise
}

type sentKey struct{}

// Counted returns a context, and how many requests were sent with it so far.
func Counted(ctx context.Context) (context.Context, *atomic.Int64) {
	sent := new(atomic.Int64)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// bounds are the bounds of all buckets of times but the last.
var bounds = [14]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Bounds are the upper bounds of the buckets of Times but the last.
func Bounds() []time.Duration { return bounds[:] }

// Times counts durations by size.
type Times struct {
	Buckets [len(bounds) + 1]uint64
	Sum     time.Duration
}

// times is Times while it is counted.
type times struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64
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

// answered counts a request whose reply has come.
func (t *Traffic) answered(op int32, took time.Duration) {
	if t == nil {
		return
	}
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	of := &t.took[kindOf(op)]
	of.buckets[i].Add(1)
	of.sum.Add(int64(took))
}

// Took is how long requests took, from when they were written until their replies had been read, by
// kind: those that were answered, but for set_watches and ping.
func (t *Traffic) Took() map[string]Times {
	all := make(map[string]Times)
	for kind := range t.took {
		of := &t.took[kind]
		took, n := Times{Sum: time.Duration(of.sum.Load())}, uint64(0)
		for i := range of.buckets {
			took.Buckets[i] = of.buckets[i].Load()
			n += took.Buckets[i]
		}
		if n > 0 {
			all[kindNames[kind]] = took
		}
	}
	return all
}

// Bytes is how many bytes were sent in requests, and received in replies and events. Replies that
// were too long to be read count for their header.
func (t *Traffic) Bytes() (sent, received uint64) { return t.sent.Load(), t.received.Load() }

// Requests is how many requests were sent, by kind: all kinds.
func (t *Traffic) Requests() map[string]uint64 {
	counts := make(map[string]uint64, len(kindNames))
	for kind, name := range kindNames {
		counts[name] = t.requests[kind].Load()
	}
	return counts
}

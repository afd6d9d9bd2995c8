package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// watched notes the answer to the oldest setWatches.
func (r *requests) watched(code int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watching) == 0 {
		return fmt.Errorf("%w: to a setWatches that was not sent", errMalformed)
	}
	b := r.watching[0]
	r.watching = r.watching[1:]
	b.confirmed, b.refused = true, code
	r.known.setWatches.answered(code)
	return nil
}

// hold holds back an event that may only say that a node did not exist when its watch was to be
// set, unless somebody else watches the node, too.
func (r *requests) hold(frame []byte, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watching) == 0 {
		return false
	}
	b := r.watching[0]
	isSet := slices.ContainsFunc(b.setting, func(w watch) bool { return w.path == path })
	if !isSet || !r.session.onlySetBy(b.by, path) {
		return false
	}
	b.held = append(b.held, heldEvent{path, frame})
	return true
}

// answer takes the reply to a bulk request and returns the frames for the library: the events that
// were held back and that tell of a change, and an empty reply. A caller that gets no readings
// reads again, and needs none of those events.
func (b *bulk) answer(frame []byte, code int32) ([]byte, error) {
	if b.setting != nil && !b.confirmed {
		return nil, fmt.Errorf("%w: to a bulk request before that to its setWatches", errMalformed)
	}
	if code == 0 {
		code = b.refused // what is read is not watched
	}
	b.code = code
	if code == 0 {
		w := walker{rest: frame[lengthBytes+headerBytes:]}
		if b.results = w.readings(b.reads); w.short {
			return nil, w.verdict("reply to a bulk request")
		}
	}
	var frames []byte
	for _, event := range b.held {
		if b.results != nil && !b.missing(event.path) {
			frames = append(frames, event.frame...)
		}
	}
	return append(frames, emptyReply(frame, code)...), nil
}

// missing reports whether a node was found not to exist.
func (b *bulk) missing(path string) bool {
	for i, r := range b.reads {
		if r.Path == path && !errors.Is(b.results[i].Err, ErrNoNode) {
			return false
		}
	}
	return true
}

// emptyReply returns a reply to a get with the header of another, but for its code.
func emptyReply(frame []byte, code int32) []byte {
	reply := slices.Clone(frame[:lengthBytes+headerBytes])
	binary.BigEndian.PutUint32(reply[len(reply)-4:], uint32(code))
	if code == 0 {
		reply = append(appendInt32(reply, -1), make([]byte, statBytes)...)
	}
	binary.BigEndian.PutUint32(reply, uint32(len(reply)-lengthBytes))
	return reply
}

// readings walks over the results of a bulk request, which must be of these reads.
func (w *walker) readings(reads []Read) []ReadResult {
	results := make([]ReadResult, len(reads))
	for i, r := range reads {
		if results[i] = w.reading(r); w.short {
			return nil
		}
	}
	op, last := w.multiHeader()
	w.short = w.short || op != opFailed || !last || len(w.rest) > 0
	return results
}

func (w *walker) reading(r Read) (result ReadResult) {
	op, last := w.multiHeader()
	switch {
	case last:
		w.short = true
	case op == opFailed:
		result.Err = readError(int32(w.uint32()))
	case op == opGetData && !r.Children:
		result.Data = bytes.Clone(w.buffer())
		result.Stat = w.stat()
	case op == opChildren && r.Children:
		result.Names = w.texts()
	default:
		w.short = true
	}
	return result
}

// multiHeader walks over the header that precedes each result, and after the last one stands for
// the end.
func (w *walker) multiHeader() (op int32, last bool) {
	op, last = int32(w.uint32()), len(w.rest) > 0 && w.rest[0] != 0
	w.skip(1 + 4) // the flag and a code
	return op, last
}

func (w *walker) texts() []string {
	n := w.uint32()
	if int64(n)*lengthBytes > int64(len(w.rest)) {
		w.short = true
		return nil
	}
	texts := make([]string, n)
	for i := range texts {
		texts[i] = string(w.buffer())
	}
	return texts
}

func (w *walker) stat() Stat {
	s := Stat{Czxid: int64(w.uint64()), Mzxid: int64(w.uint64())}
	s.Ctime, s.Mtime = time.UnixMilli(int64(w.uint64())), time.UnixMilli(int64(w.uint64()))
	s.Version, s.Cversion = int32(w.uint32()), int32(w.uint32())
	w.skip(4) // aversion
	s.EphemeralOwner = int64(w.uint64())
	w.skip(4) // the length of the data
	s.NumChildren = int(int32(w.uint32()))
	s.Pzxid = int64(w.uint64())
	return s
}

func readError(code int32) error {
	switch code {
	case codeNoNode:
		return ErrNoNode
	case codeNoAuth:
		return ErrDenied
	default:
		return fmt.Errorf("%w: code %d", ErrUnclear, code)
	}
}

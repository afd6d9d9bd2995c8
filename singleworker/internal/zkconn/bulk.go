package zkconn

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// The library knows no multiRead, and offers no setWatches to its callers. A bulk request is made
// as a get of a path that stands for it, so that the library does its queueing and matches its
// reply; the connection sends the bulk request instead, with the same xid, and gives the library an
// empty reply.
//
// multiRead sets no watches. They are set by a setWatches just before it: the server answers a
// connection's requests in their order, so no change falls between the watch and the reading.
// setWatches reports a node that does not exist as deleted, and sets no watch. The caller learns as
// much from the reading, and one that reads changed nodes again would ask without end: such an
// event is held back until the reading is there, and then dropped.

// bulkPath begins the paths that stand for bulk requests. ZooKeeper reserves the paths below
// /zookeeper.
const bulkPath = "/zookeeper/singleworker/bulk-"

const (
	opMultiRead, opSetWatches = 22, 101

	xidSetWatches = -8 // as in ZooKeeper's own client

	eventDeleted = 2

	codeUnimplemented = -6
	codeNoNode        = -101
	codeNoAuth        = -102
)

// errUnimplemented is returned by a server that knows no bulk requests.
var errUnimplemented = errors.New("the server knows no bulk requests")

// A bulk is a bulk request under way. Its fields below reads belong to the connection's reader
// until the request that stands for it is answered.
type bulk struct {
	by      *setter
	setting []watch // what setWatches is to set
	reads   []Read  // with full paths

	confirmed bool  // setWatches was answered
	refused   int32 // the code of that answer
	held      []heldEvent
	code      int32
	results   []ReadResult
}

// A setter is a bulk request that sets watches. Its watches end with the connection: the library,
// which does not know them, does not set them again in the next. So the library's watches do not
// take their place: it sets them again some time after the connection was made, and until then
// replies show changes that nobody was notified of.
type setter struct{ done bool }

// A heldEvent says that a node was deleted.
type heldEvent struct {
	path  string
	frame []byte
}

// readMany makes a bulk request. It fails as a whole, or each read has its own outcome.
func (s *session) readMany(reads []Read) (results []ReadResult, err error) {
	b := &bulk{reads: reads, by: new(setter)}
	path := s.register(b)
	_, _, err = s.zk.Get(path)
	switch {
	case errors.Is(err, zk.ErrConnectionClosed): // the reader may still use b
	case err != nil && b.code == codeUnimplemented:
		err = errUnimplemented
	case b.results == nil && (err == nil || errors.Is(err, zk.ErrNoNode)):
		err = errors.New("the request was not replaced by a bulk request")
	case err == nil:
		results = b.results
	}
	s.unregister(path, b.by, reads, results)
	return results, err
}

// register notes a bulk request and the watches that it is to set.
func (s *session) register(b *bulk) (path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range b.reads {
		watched := s.together[r.Children]
		by, set := watched[r.Path]
		if !r.Watch || set && by.done {
			continue
		}
		watched[r.Path] = b.by
		b.setting = append(b.setting, watch{r.Path, r.Children})
	}
	s.tokens++
	path = bulkPath + strconv.Itoa(s.tokens)
	s.bulks[path] = b
	return path
}

// unregister forgets a bulk request, and the watches of nodes that were not read.
func (s *session) unregister(path string, by *setter, reads []Read, results []ReadResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bulks, path)
	by.done = true
	for i, r := range reads {
		watched := s.together[r.Children]
		if watched[r.Path] == by && (results == nil || results[i].Err != nil) {
			delete(watched, r.Path)
		}
	}
}

// bulk returns the bulk request for which a path stands, or nil.
func (s *session) bulk(path string) *bulk {
	if !strings.HasPrefix(path, bulkPath) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bulks[path]
}

// forgetBulkWatches notes that the watches of bulk requests have ended with their connection.
func (s *session) forgetBulkWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.together = newWatches()
}

// onlySetBy reports whether nobody else watches a node.
func (s *session) onlySetBy(by *setter, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watched := range s.singly {
		if _, set := watched[path]; set {
			return false
		}
	}
	for _, watched := range s.together {
		if other, set := watched[path]; set && other != by {
			return false
		}
	}
	return true
}

// frames returns the frames to send.
func (b *bulk) frames(xid int32) []byte {
	const headers, each = 128, 32 // bytes beside the paths
	size := headers
	for _, r := range b.reads {
		size += each + len(r.Path)
	}
	for _, w := range b.setting {
		size += each + len(w.path)
	}
	frames := make([]byte, 0, size) // a little more than it takes
	if b.setting != nil {
		frames = appendFrame(frames, xidSetWatches, opSetWatches, b.appendWatches)
	}
	return appendFrame(frames, xid, opMultiRead, b.appendReads)
}

func appendFrame(frames []byte, xid, op int32, body func([]byte) []byte) []byte {
	at := len(frames)
	frames = appendInt32(frames, 0) // the length
	frames = body(appendInt32(appendInt32(frames, xid), op))
	binary.BigEndian.PutUint32(frames[at:], uint32(len(frames)-at-lengthBytes))
	return frames
}

// appendWatches appends the body of the setWatches.
func (b *bulk) appendWatches(body []byte) []byte {
	body = binary.BigEndian.AppendUint64(body, math.MaxInt64) // no node has changed since
	var data, children []string
	for _, w := range b.setting {
		if w.children {
			children = append(children, w.path)
		} else {
			data = append(data, w.path)
		}
	}
	for _, paths := range [][]string{data, nil, children} { // nil: of nodes that do not exist
		body = appendInt32(body, int32(len(paths)))
		for _, path := range paths {
			body = appendText(body, path)
		}
	}
	return body
}

// appendReads appends the body of the multiRead.
func (b *bulk) appendReads(body []byte) []byte {
	for _, r := range b.reads {
		op := int32(opGetData)
		if r.Children {
			op = opChildren
		}
		body = append(appendInt32(body, op), 0)
		body = appendText(appendInt32(body, -1), r.Path)
		body = append(body, 0) // no watch
	}
	return appendInt32(append(appendInt32(body, -1), 1), -1) // the end
}

func appendInt32(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func appendText(b []byte, s string) []byte { return append(appendInt32(b, int32(len(s))), s...) }

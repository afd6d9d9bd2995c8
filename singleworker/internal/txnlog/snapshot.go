package txnlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"time"
)

// Snapshot is a snapshot without its nodes.
type Snapshot struct {
	Nodes    int
	Sessions map[int64]time.Duration // the timeouts of those that live
	ACLs     map[int64][]ACL         // complete before the first node is visited
	// Through is the last transaction of which the snapshot shows traces: a server writes one while it
	// works, so it is not the tree at one moment. It becomes that when the log is applied from the
	// zxid in the file's name up to this one.
	Through int64
}

// OpenACL is the key of a list that allows everything to everybody. It is not in the table.
const OpenACL = -1

// maxSessions bounds the sessions of a snapshot.
const maxSessions = 1 << 20

// ReadSnapshot reads a snapshot and calls visit for each node, parents first. It returns ErrCorrupt
// for one that is damaged or cut short, and then the calls of visit are worth nothing: the checksum
// is at the end.
func ReadSnapshot(r io.Reader, visit func(Node)) (*Snapshot, error) {
	in := &summed{in: bufio.NewReaderSize(r, 1<<18), sum: adler32.New()}
	s := &Snapshot{Sessions: make(map[int64]time.Duration), ACLs: make(map[int64][]ACL)}
	if err := in.head(); err != nil {
		return nil, err
	}
	s.read(in, visit)
	if in.err != nil && !errors.Is(in.err, ErrCorrupt) {
		in.err = fmt.Errorf("%w: it ends after %d bytes: %w", ErrCorrupt, in.offset, in.err)
	}
	return s, in.err
}

func (s *Snapshot) read(in *summed, visit func(Node)) {
	sessions := in.count(maxSessions)
	for range sessions {
		id := in.long()
		if s.Sessions[id] = time.Duration(in.int()) * time.Millisecond; in.err != nil {
			return
		}
	}
	for range in.count(maxRecordBytes) { // the table of access control lists
		key := in.long()
		for range in.count(maxRecordBytes) {
			s.ACLs[key] = append(s.ACLs[key], ACL{Perms: in.int(), Scheme: string(in.buffer()), ID: string(in.buffer())})
			if in.err != nil {
				return
			}
		}
		if in.err != nil {
			return
		}
	}
	for in.err == nil {
		path := string(in.buffer())
		if path == "/" || in.err != nil {
			break // the end; the root itself is ""
		}
		n := Node{Path: path, Data: in.buffer()}
		n.ACL = in.long()
		n.Czxid, n.Mzxid, n.Ctime, n.Mtime = in.long(), in.long(), time.UnixMilli(in.long()), time.UnixMilli(in.long())
		n.Version, n.Born, n.Aversion = in.int(), in.int(), in.int()
		n.Owner, n.Pzxid = in.long(), in.long()
		if in.err == nil {
			s.Nodes++
			s.Through = max(s.Through, n.Czxid, n.Mzxid, n.Pzxid)
			visit(n)
		}
	}
	if in.err != nil {
		return
	}
	want := uint64(in.sum.Sum32())
	if got := uint64(in.long()); in.err == nil && got != want {
		in.failf("its checksum is wrong")
	}
}

// summed reads the fields of a snapshot, and sums up the bytes that it reads. After an error it
// returns zero values.
type summed struct {
	in     *bufio.Reader
	sum    hash.Hash32
	offset int64
	err    error
	buf    bytes.Buffer
}

func (s *summed) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
}

func (s *summed) head() error {
	magic, version := uint32(s.int()), s.int()
	s.long()
	switch {
	case s.err != nil:
		return fmt.Errorf("%w: it has %d bytes", ErrCorrupt, s.offset)
	case magic != snapshotMagic:
		return fmt.Errorf("%w: it begins with %q", ErrCorrupt, binary.BigEndian.AppendUint32(nil, magic))
	case version != fileVersion:
		return fmt.Errorf("%w: format version %d, this one reads %d", ErrCorrupt, version, fileVersion)
	}
	return nil
}

// take reads n bytes, which are valid until the next call.
func (s *summed) take(n int64) []byte {
	if s.err != nil {
		return nil
	}
	s.buf.Reset()
	read, err := io.CopyN(&s.buf, s.in, n)
	s.offset += read
	if err != nil {
		s.err = err
		return nil
	}
	_, _ = s.sum.Write(s.buf.Bytes())
	return s.buf.Bytes()
}

func (s *summed) int() int32 {
	if b := s.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (s *summed) long() int64 {
	if b := s.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (s *summed) buffer() []byte {
	n := s.int()
	if n == -1 || s.err != nil {
		return nil
	}
	if n < 0 || n > maxRecordBytes {
		s.failf("at byte %d a field of %d bytes, want at most %d", s.offset, n, maxRecordBytes)
		return nil
	}
	return bytes.Clone(s.take(int64(n)))
}

// count reads the number of entries of a table.
func (s *summed) count(most int32) int {
	n := s.int()
	if n > most {
		s.failf("at byte %d a table of %d entries, want at most %d", s.offset, n, most)
	}
	if s.err != nil || n < 0 {
		return 0
	}
	return int(n)
}

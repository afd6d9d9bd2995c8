package txnlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
)

// ErrCorrupt is returned for a file that does not match its name, or is damaged in a way that
// ZooKeeper would not start with.
var ErrCorrupt = errors.New("txnlog: not a ZooKeeper file, or a damaged one")

// ErrTorn is returned for a log whose last record is not complete, as after a crash of the server.
// Transactions that were read before are right, and ZooKeeper ends the log there, too.
var ErrTorn = errors.New("txnlog: the last record is torn")

// ErrFile is returned for a file, or a directory, that cannot be opened, listed or read.
var ErrFile = errors.New("txnlog: cannot read")

// ErrCut is returned when a server has cut off transactions that were read: it had logged them as
// the leader, or for one, and its ensemble has continued without them.
var ErrCut = errors.New("txnlog: the server has cut its log")

const (
	logMagic      = 0x5a4b4c47 // ZKLG
	snapshotMagic = 0x5a4b534e // ZKSN
	fileVersion   = 2
	endOfRecord   = 'B'

	// maxRecordBytes bounds a record: ZooKeeper's own limit for requests, jute.maxbuffer, is 1 MB.
	maxRecordBytes = 16 << 20
)

// Reader reads a transaction log. Not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	offset int64
	body   bytes.Buffer
}

// NewReader reads the head of a log. It returns ErrTorn for an empty file, which a server leaves
// that crashes at the wrong moment, and ErrCorrupt for a file that is not a log.
func NewReader(r io.Reader) (*Reader, error) {
	l := &Reader{in: bufio.NewReaderSize(r, 1<<18)}
	return l, l.head()
}

// head reads the head of the file.
func (l *Reader) head() error {
	var head [16]byte
	n, err := io.ReadFull(l.in, head[:])
	l.offset = int64(n)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it has %d bytes", ErrTorn, n)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFile, err)
	case binary.BigEndian.Uint32(head[:]) != logMagic:
		return fmt.Errorf("%w: it begins with %q", ErrCorrupt, head[:4])
	case binary.BigEndian.Uint32(head[4:]) != fileVersion:
		return fmt.Errorf("%w: format version %d, this one reads %d", ErrCorrupt, binary.BigEndian.Uint32(head[4:]), fileVersion)
	}
	return nil
}

// resume reads on from in, whose next byte is the one at the offset.
func (l *Reader) resume(in io.Reader, at int64) {
	l.in.Reset(in)
	l.offset = at
}

// Offset is how many bytes were read.
func (l *Reader) Offset() int64 { return l.offset }

// Next returns the next transaction. Its data is its own. It returns io.EOF at the end, ErrTorn if
// the log ends within a record, and ErrCorrupt if it cannot be read further.
func (l *Reader) Next() (Txn, error) {
	at := l.offset
	var head [12]byte // checksum, length
	switch n, err := io.ReadFull(l.in, head[:]); {
	case errors.Is(err, io.EOF):
		return Txn{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		l.offset += int64(n)
		return Txn{}, l.torn(at)
	case err != nil:
		return Txn{}, fmt.Errorf("%w, at byte %d: %w", ErrFile, at, err)
	}
	l.offset += int64(len(head))
	length := int32(binary.BigEndian.Uint32(head[8:]))
	if length == 0 || length == -1 {
		return Txn{}, io.EOF // preallocated
	}
	if length < 0 || length > maxRecordBytes {
		return Txn{}, fmt.Errorf("%w: at byte %d a record of %d bytes, want at most %d", ErrCorrupt, at, length, maxRecordBytes)
	}
	l.body.Reset()
	n, err := io.CopyN(&l.body, l.in, int64(length)+1)
	l.offset += n
	if errors.Is(err, io.EOF) {
		return Txn{}, l.torn(at)
	}
	if err != nil {
		return Txn{}, fmt.Errorf("%w, at byte %d: %w", ErrFile, at, err)
	}
	body := bytes.Clone(l.body.Bytes())
	if body[length] != endOfRecord {
		return Txn{}, l.torn(at)
	}
	body = body[:length]
	if sum := binary.BigEndian.Uint64(head[:]); sum != uint64(adler32.Checksum(body)) {
		return Txn{}, fmt.Errorf("%w: the checksum of the record at byte %d is wrong", ErrCorrupt, at)
	}
	txn, err := decode(body)
	if err != nil {
		return Txn{}, fmt.Errorf("%w: the record at byte %d: %w", ErrCorrupt, at, err)
	}
	txn.Bytes = int(l.offset - at)
	return txn, nil
}

func (l *Reader) torn(at int64) error { return fmt.Errorf("%w, at byte %d", ErrTorn, at) }

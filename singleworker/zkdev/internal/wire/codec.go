package wire

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrMalformed is returned when bytes do not form the expected record.
var ErrMalformed = errors.New("malformed record")

// A decoder reads fields. After the first missing field, all others are zero and err is set.
type decoder struct {
	rest []byte
	err  error
	null bool // a required string was null
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.rest) {
		d.err = ErrMalformed
		return nil
	}
	field := d.rest[:n]
	d.rest = d.rest[n:]
	return field
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return len(b) == 1 && b[0] != 0
}

func (d *decoder) int32() int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (d *decoder) int64() int64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// buffer returns a copy, so that keeping it does not keep the frame. Null is nil; an empty buffer
// is not.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.err != nil {
		return nil
	}
	b := d.take(int(n))
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// string returns a string; ok is false when it is null. Bytes that are not
// UTF-8 become U+FFFD, as in Java.
func (d *decoder) string() (s string, ok bool) {
	n := d.int32()
	if n == -1 || d.err != nil {
		return "", false
	}
	b := d.take(int(n))
	if !utf8.Valid(b) {
		return string([]rune(string(b))), d.err == nil
	}
	return string(b), d.err == nil
}

// text returns a string that must not be null.
func (d *decoder) text() string {
	s, ok := d.string()
	d.null = d.null || !ok
	return s
}

// count returns the number of elements of a vector, each of at least size bytes.
// A negative one is an empty vector, as in ZooKeeper.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n > len(d.rest)/size {
		d.err = ErrMalformed
	}
	if d.err != nil || n < 0 {
		return 0
	}
	return n
}

func (d *decoder) texts() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.text())
	}
	return list
}

func (d *decoder) acls() []ACL {
	n := d.count(12)
	if n == 0 {
		return nil
	}
	list := make([]ACL, 0, n)
	for range n {
		acl := ACL{Perms: d.int32()}
		acl.Scheme, acl.NoScheme = d.nullable()
		acl.ID.ID = d.text()
		list = append(list, acl)
	}
	return list
}

func (d *decoder) nullable() (s string, null bool) {
	s, ok := d.string()
	return s, !ok
}

// The append functions write one field each.

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendString(b []byte, s string) []byte {
	if strings.IndexFunc(s, beyondBasicPlane) >= 0 {
		s = surrogates(s)
	}
	return append(appendInt32(b, int32(len(s))), s...)
}

func beyondBasicPlane(r rune) bool { return r > 0xffff }

// surrogates encodes characters beyond the basic plane as ZooKeeper does when it
// sends them (but not as it reads them): each half of the surrogate pair by itself.
func surrogates(s string) string {
	var b strings.Builder
	for _, r := range s {
		if !beyondBasicPlane(r) {
			b.WriteRune(r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		for _, half := range []rune{high, low} {
			b.Write([]byte{0xe0 | byte(half>>12), 0x80 | byte(half>>6)&0x3f, 0x80 | byte(half)&0x3f})
		}
	}
	return b.String()
}

func appendBuffer(b, v []byte) []byte {
	if v == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(len(v))), v...)
}

func appendStrings(b []byte, list []string) []byte {
	b = appendInt32(b, int32(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

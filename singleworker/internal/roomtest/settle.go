package roomtest

import (
	"encoding/binary"
	"net"
	"time"
)

// Settle makes a client's first steps on a connection the same in every run, in a bubble: no reply
// comes before the client has come to rest after the connect response, and has sent its own first
// requests.
func Settle(conn net.Conn) net.Conn { return &settling{Conn: conn} }

// settling is a connection with one reader.
type settling struct {
	net.Conn

	read  int // bytes so far
	first int // length of the connect response, once it is known
	head  []byte
}

func (c *settling) Read(p []byte) (int, error) {
	if c.first > 0 && c.read == c.first {
		<-time.After(time.Nanosecond) // in a bubble: when everything else rests
	}
	n, err := c.Conn.Read(p)
	c.note(p[:n])
	return n, err
}

// note counts the bytes read, up to the end of the connect response.
func (c *settling) note(p []byte) {
	const length = 4
	c.head = append(c.head, p[:min(len(p), length-len(c.head))]...)
	c.read += len(p)
	if len(c.head) == length && c.first == 0 {
		c.first = length + int(binary.BigEndian.Uint32(c.head))
	}
}

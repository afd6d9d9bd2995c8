package roomtest

import (
	"encoding/binary"
	"net"
	"time"
)

// Settle makes a connection fit for a client that has watches to set again, in a bubble: it
// lets the client's loop come to rest when the connection is established. The client reads the
// last zxid there while its receiver may already write it: a race in
// go-zookeeper v1.0.4 (sendSetWatches, recvLoop), which is not what is tested here.
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

// note counts what was read, up to the end of the connect response.
func (c *settling) note(p []byte) {
	const length = 4
	c.head = append(c.head, p[:min(len(p), length-len(c.head))]...)
	c.read += len(p)
	if len(c.head) == length && c.first == 0 {
		c.first = length + int(binary.BigEndian.Uint32(c.head))
	}
}

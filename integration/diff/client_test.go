package diff

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// replyTimeout is how long a server may take to answer.
const replyTimeout = 20 * time.Second

// Xids of frames that are not replies.
const (
	xidEvent = -1
	xidPing  = -2
)

// A peer is one connection to one of the two servers.
type peer struct {
	addr     string
	conn     net.Conn
	session  int64
	password []byte
}

// A frame is one message of a server to a client that has connected.
type frame struct {
	xid  int32
	zxid int64
	code int32
	body []byte
}

func (f frame) String() string {
	return fmt.Sprintf("xid=%d zxid=%d code=%d body=%q", f.xid, f.zxid, f.code, f.body)
}

// dial opens a connection and sends the connect request, which starts a session or, with session
// and password, resumes one. It returns the server's reply.
func dial(addr string, lastZxid, session int64, password []byte, timeout int32, readOnlyFlag bool) (*peer, []byte, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	p := &peer{addr: addr, conn: conn}
	var b buf
	b.i32(0).i64(lastZxid).i32(timeout).i64(session).bytes(password)
	if readOnlyFlag {
		b.bool(false)
	}
	if err := p.send(b); err != nil {
		return nil, nil, err
	}
	hello, err := p.read()
	if err != nil {
		return p, nil, err
	}
	p.session = int64(binary.BigEndian.Uint64(hello[8:]))
	p.password = hello[20:36]
	return p, hello, nil
}

func (p *peer) send(messages ...buf) error {
	var out []byte
	for _, message := range messages {
		out = binary.BigEndian.AppendUint32(out, uint32(len(message)))
		out = append(out, message...)
	}
	_, err := p.conn.Write(out)
	return err
}

func (p *peer) read() ([]byte, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.conn, message)
	return message, err
}

func (p *peer) frame() (frame, error) {
	message, err := p.read()
	if err != nil {
		return frame{}, err
	}
	if len(message) < 16 {
		return frame{}, fmt.Errorf("frame of %d bytes: %x", len(message), message)
	}
	return frame{
		xid:  int32(binary.BigEndian.Uint32(message)),
		zxid: int64(binary.BigEndian.Uint64(message[4:])),
		code: int32(binary.BigEndian.Uint32(message[12:])),
		body: message[16:],
	}, nil
}

// replies reads frames up to the reply with the last of the requests' xids, or to
// the end of the connection.
func (p *peer) replies(last int32) ([]frame, error) {
	var frames []frame
	for {
		f, err := p.frame()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
		if f.xid == last {
			return frames, nil
		}
	}
}

// A buf builds a message.
type buf []byte

func (b *buf) i32(v int32) *buf {
	*b = binary.BigEndian.AppendUint32(*b, uint32(v))
	return b
}

func (b *buf) i64(v int64) *buf {
	*b = binary.BigEndian.AppendUint64(*b, uint64(v))
	return b
}

func (b *buf) bool(v bool) *buf {
	if v {
		*b = append(*b, 1)
	} else {
		*b = append(*b, 0)
	}
	return b
}

func (b *buf) str(s string) *buf {
	b.i32(int32(len(s)))
	*b = append(*b, s...)
	return b
}

// bytes writes a buffer; nil is null.
func (b *buf) bytes(v []byte) *buf {
	if v == nil {
		return b.i32(-1)
	}
	b.i32(int32(len(v)))
	*b = append(*b, v...)
	return b
}

func (b *buf) strs(list []string) *buf {
	b.i32(int32(len(list)))
	for _, s := range list {
		b.str(s)
	}
	return b
}

// word sends a four-letter command and returns the answer.
func word(addr, command string) (string, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

package zkdev

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

const (
	// connectTimeout is how long a connection may stay without a session.
	connectTimeout = 10 * time.Second

	// flushTimeout is how long a client may take to read the last bytes.
	flushTimeout = 5 * time.Second

	// maxHeld is how many frames of a connection wait for the end of a delay or a
	// partition before it is given up.
	maxHeld = 10_000

	// maxUnsent is how many bytes a client may leave unread before its connection
	// is given up.
	maxUnsent = 256 << 20
)

var lastConn atomic.Uint64

// A conn is one connection. Its reader posts frames to the owner goroutine, its writer
// takes frames from out; all other fields are the owner's.
type conn struct {
	id     tree.Conn
	nc     net.Conn
	client *Client // nil when it was not dialed by one
	out    *outbox

	known    bool  // the connection is in core's table
	session  int64 // 0 before one; also the one it asks for
	ready    bool  // it has a session
	timeout  time.Duration
	ids      []wire.ID // what it authenticated as
	detached bool      // it is out of the game; only its last bytes may be under way
	paused   bool      // its requests wait
	muted    int       // replies wait; the number of reasons
	held     [][]byte  // frames that wait
	unsent   [][]byte  // frames to the client that wait
	closing  bool      // what waits to be sent is the last
}

func newConn(nc net.Conn, client *Client) *conn {
	return &conn{
		id: tree.Conn(lastConn.Add(1)), nc: nc, client: client,
		out: &outbox{nc: nc, changed: make(chan struct{}, 1)},
		ids: []wire.ID{{Scheme: "ip", ID: remoteIP(nc)}},
	}
}

// remoteIP is the address that ACLs of the scheme "ip" are compared with.
func remoteIP(nc net.Conn) string {
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP.String()
	}
	return "127.0.0.1"
}

// read is the reader goroutine.
func (c *conn) read(l *life) {
	defer l.post(func(k *core) { k.gone(c) })
	defer c.out.finish() // also when the life ends
	_ = c.nc.SetReadDeadline(time.Now().Add(connectTimeout))
	length, err := wire.ReadLength(c.nc)
	if err != nil || !l.post(func(k *core) { k.meet(c) }) {
		return
	}
	if word := fourLetters(length); word != "" {
		answered := make(chan struct{})
		if l.post(func(k *core) { defer close(answered); k.answerWord(c, word) }) {
			<-answered
		}
		return
	}
	for {
		message, err := wire.ReadMessage(c.nc, length)
		if err != nil {
			if bad := (*wire.FrameError)(nil); errors.As(err, &bad) {
				l.post(func(k *core) { k.complain(c, err) })
			}
			return
		}
		if !l.post(func(k *core) { k.frame(c, message) }) {
			return
		}
		_ = c.nc.SetReadDeadline(time.Time{})
		if length, err = wire.ReadLength(c.nc); err != nil {
			return
		}
	}
}

// fourLetters is the command that a length stands for, or empty.
func fourLetters(length int32) string {
	word := string(binary.BigEndian.AppendUint32(nil, uint32(length)))
	if _, ok := words[word]; !ok {
		return ""
	}
	return word
}

// An outbox is the frames that wait to be written. Nobody waits to put one in.
type outbox struct {
	nc      net.Conn
	changed chan struct{} // has one element when there is something to do

	mu    sync.Mutex
	queue []byte // guarded by mu
	last  bool   // guarded by mu; nothing follows the queue
}

// put adds a frame. A client that does not read loses its connection.
func (o *outbox) put(frame []byte) {
	o.mu.Lock()
	if !o.last {
		o.queue = append(o.queue, frame...)
	}
	full := len(o.queue) > maxUnsent
	o.mu.Unlock()
	if full {
		o.cut()
	}
	o.wake()
}

// finish lets the writer close the connection after what is in the queue.
func (o *outbox) finish() {
	o.mu.Lock()
	if !o.last {
		o.last = true
		_ = o.nc.SetWriteDeadline(time.Now().Add(flushTimeout))
	}
	o.mu.Unlock()
	o.wake()
}

// cut closes the connection at once; what is in the queue is lost.
func (o *outbox) cut() {
	o.mu.Lock()
	o.last, o.queue = true, nil
	o.mu.Unlock()
	_ = o.nc.Close()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.changed <- struct{}{}:
	default: // the writer takes all at each wake-up
	}
}

// write is the writer goroutine.
func (o *outbox) write() {
	defer o.nc.Close()
	for range o.changed {
		o.mu.Lock()
		batch, last := o.queue, o.last
		o.queue = nil
		o.mu.Unlock()
		if len(batch) > 0 {
			if _, err := o.nc.Write(batch); err != nil {
				o.cut()
				return
			}
		}
		if last {
			return
		}
	}
}

package zkdev

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
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

	// maxHeld is how many requests of a connection wait for the end of a delay or a
	// partition before it is given up.
	maxHeld = 10_000

	// maxHeldBytes is how long they may be together, and so what waits to be sent.
	maxHeldBytes = 64 << 20

	// maxUnsent is how many bytes a client may leave unread before its connection
	// is given up.
	maxUnsent = 256 << 20
)

var lastConn atomic.Uint64

// A conn is one connection. Its reader handles frames, its writer takes from out what could
// not be sent at once; all other fields belong to core.
type conn struct {
	id     tree.Conn
	nc     net.Conn
	client *Client // nil when it was not dialed by one
	out    *outbox

	session  int64 // 0 before one; also the one it asks for
	ready    bool  // it has a session
	timeout  time.Duration
	ids      []wire.ID // what it authenticated as
	detached bool      // it is out of the game; only its last bytes may be under way
	paused   bool      // its requests wait
	muted    int       // replies wait; the number of reasons
	held     backlog   // frames that wait
	unsent   backlog   // frames to the client that wait
	closing  bool      // what waits to be sent is the last
}

func newConn(nc net.Conn, client *Client) *conn {
	return &conn{
		id: tree.Conn(lastConn.Add(1)), nc: nc, client: client,
		out: &outbox{nc: nc, changed: make(chan struct{}, 1)},
		ids: []wire.ID{{Scheme: "ip", ID: remoteIP(nc)}},
	}
}

// A backlog is frames that wait, in order.
type backlog struct {
	frames [][]byte
	bytes  int
}

func (b *backlog) add(frame []byte) {
	b.frames = append(b.frames, frame)
	b.bytes += len(frame)
}

func (b *backlog) take() []byte {
	first := b.frames[0]
	b.frames = b.frames[1:]
	b.bytes -= len(first)
	return first
}

// putBack makes a frame that was taken the first again.
func (b *backlog) putBack(frame []byte) {
	b.frames = slices.Insert(b.frames, 0, frame)
	b.bytes += len(frame)
}

func (b *backlog) isEmpty() bool { return len(b.frames) == 0 }

// remoteIP is the address that ACLs of the scheme "ip" are compared with.
func remoteIP(nc net.Conn) string {
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP.String()
	}
	return "127.0.0.1"
}

// read is the reader goroutine.
func (c *conn) read(l *life) {
	defer l.do(func(k *core) { k.gone(c) })
	defer c.out.finish() // also when the life ends
	in := bufio.NewReader(c.nc)
	c.receive(l, in)
	// Whoever is partitioned hears of the end only when that is over: the connection stays
	// until it is closed, by whichever side.
	l.do(func(k *core) { k.hangUp(c, true) })
	_ = c.nc.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, in)
}

// receive takes what the client sends, for as long as there is a use for it.
func (c *conn) receive(l *life, in io.Reader) {
	_ = c.nc.SetReadDeadline(time.Now().Add(connectTimeout))
	length, err := wire.ReadLength(in)
	if err != nil {
		return
	}
	if word := fourLetters(length); word != "" {
		l.do(func(k *core) { k.answerWord(c, word) })
		return
	}
	for waits := false; ; waits = true {
		message, err := wire.ReadMessage(in, length)
		if err != nil {
			if bad := (*wire.FrameError)(nil); errors.As(err, &bad) {
				l.do(func(k *core) { k.complain(c, err) })
			}
			return
		}
		if !l.do(func(k *core) { k.frame(c, message) }) {
			return
		}
		if !waits {
			_ = c.nc.SetReadDeadline(time.Time{})
		}
		if length, err = wire.ReadLength(in); err != nil {
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

	mu      sync.Mutex
	queue   []byte // guarded by mu
	writing bool   // guarded by mu; the writer has taken what was in the queue
	last    bool   // guarded by mu; nothing follows the queue
}

// put adds a frame. A client that does not read loses its connection. What a connection in the
// process has room for goes there at once.
func (o *outbox) put(frame []byte) {
	o.mu.Lock()
	pipe, direct := o.nc.(*pipeEnd)
	if direct = direct && !o.last && !o.writing && len(o.queue) == 0; direct {
		frame = frame[pipe.writeNow(frame):]
	}
	if !o.last {
		o.queue = append(o.queue, frame...)
	}
	empty, full := len(o.queue) == 0, len(o.queue) > maxUnsent
	o.mu.Unlock()
	if full {
		o.cut()
	}
	if !empty {
		o.wake()
	}
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
		o.queue, o.writing = nil, true
		o.mu.Unlock()
		if len(batch) > 0 {
			if _, err := o.nc.Write(batch); err != nil {
				o.cut()
				return
			}
		}
		o.mu.Lock()
		o.writing = false
		o.mu.Unlock()
		if last {
			return
		}
	}
}

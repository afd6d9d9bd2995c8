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
	// connectTimeout is how long a connection may exist without a session.
	connectTimeout = 10 * time.Second

	// flushTimeout is how long a client may take to read the last bytes.
	flushTimeout = 5 * time.Second

	// maxHeld limits the requests of a connection that are held back by a delay or a partition. A
	// connection with more is cut.
	maxHeld = 10_000

	// maxHeldBytes limits their total length, together with the frames held back from the client.
	maxHeldBytes = 64 << 20

	// enoughUnsent is how many bytes a client may leave unread before no more of its requests are
	// read.
	enoughUnsent = 4 << 20

	// maxUnsent limits those bytes: a watch event is not held back. A connection with more is cut.
	maxUnsent = 32 << 20

	// maxUnsentOfAll limits the unread bytes of all clients together. Beyond it, a connection with
	// more than fairUnsent is cut.
	maxUnsentOfAll = 128 << 20
	fairUnsent     = 64 << 10

	// maxConns limits the connections by TCP, and maxConnsEach the ones from one address, so that a
	// machine that is out of hand does not keep all others out.
	maxConns     = 4096
	maxConnsEach = 1024

	// maxSessions limits the sessions, which outlive connections by their timeouts.
	maxSessions = 4 * maxConns

	// maxIDs limits the credentials of a connection.
	maxIDs = 100
)

var lastConn atomic.Uint64

// A conn is one connection. Its reader handles frames; its writer sends the frames in out that
// could not be sent at once. All other fields belong to core.
type conn struct {
	id     tree.Conn
	nc     net.Conn
	client *Client // that dialed, or nil
	out    *outbox

	session  int64 // granted or requested; 0 before that
	ready    bool  // it has a session
	timeout  time.Duration
	ids      []wire.ID // authenticated identities
	detached bool      // it has no session any more; at most its last bytes are in flight
	paused   bool      // requests are held
	muted    int       // number of reasons to hold back replies
	held     backlog   // frames from the client
	unsent   backlog   // frames to the client
	closing  bool      // close after unsent is sent
}

func newConn(nc net.Conn, client *Client, unsent *atomic.Int64) *conn {
	return &conn{
		id: tree.Conn(lastConn.Add(1)), nc: nc, client: client,
		out: newOutbox(nc, unsent),
		ids: []wire.ID{{Scheme: "ip", ID: remoteIP(nc)}},
	}
}

// A backlog is a queue of frames that are held back.
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

// putBack returns a frame to the head of the queue.
func (b *backlog) putBack(frame []byte) {
	b.frames = slices.Insert(b.frames, 0, frame)
	b.bytes += len(frame)
}

func (b *backlog) isEmpty() bool { return len(b.frames) == 0 }

// remoteIP returns the address that ACLs of the scheme "ip" are compared with.
func remoteIP(nc net.Conn) string {
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return addr.IP.String()
	}
	return "127.0.0.1"
}

// read is the reader goroutine.
func (c *conn) read(l *life) {
	defer func() {
		if !l.do(func(k *core) { k.gone(c) }) {
			c.out.finish()
		}
	}()
	in := bufio.NewReader(c.nc)
	c.receive(l, in)
	// A partitioned client must not notice the end before the partition heals: the connection stays
	// until either side closes it.
	l.do(func(k *core) { k.hangUp(c, true) })
	_ = c.nc.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, in)
}

// receive reads the client's frames until the connection fails or the life ends.
func (c *conn) receive(l *life, in io.Reader) {
	_ = c.nc.SetReadDeadline(time.Now().Add(connectTimeout))
	if !c.secure(l) {
		return
	}
	length, err := wire.ReadLength(in)
	if err != nil {
		return
	}
	if word := fourLetters(length); word != "" {
		l.do(func(k *core) { k.answerWord(c, word) })
		return
	}
	for connected := false; ; connected = true {
		message, err := wire.ReadMessage(in, length)
		if err != nil {
			if bad := (*wire.FrameError)(nil); errors.As(err, &bad) {
				if !connected && length>>8 == clientHello {
					err = errOnlyTLS
				}
				l.do(func(k *core) { k.complain(c, err) })
			}
			return
		}
		if !l.do(func(k *core) { k.frame(c, message) }) {
			return
		}
		if !connected {
			_ = c.nc.SetReadDeadline(time.Time{})
		}
		c.out.awaitRoom()
		l.awaitDisk()
		if length, err = wire.ReadLength(in); err != nil {
			return
		}
	}
}

// fourLetters returns the four-letter command whose bytes were read as a length, or "".
func fourLetters(length int32) string {
	word := string(binary.BigEndian.AppendUint32(nil, uint32(length)))
	if _, ok := words[word]; !ok {
		return ""
	}
	return word
}

// An outbox is the queue of frames to be written. Adding to it never blocks.
type outbox struct {
	nc      net.Conn
	bare    net.Conn      // nc without its TLS, which would wait to take leave of the client
	ofAll   *atomic.Int64 // the unsent bytes of all outboxes
	changed chan struct{} // has one element if there is work for the writer

	mu      sync.Mutex // guards what follows
	queue   []byte
	waiting int       // the length of frames that will be put
	writing int       // the length of an earlier queue that the writer is writing
	last    bool      // nothing will be added
	less    sync.Cond // signaled when there is less to send
}

func newOutbox(nc net.Conn, ofAll *atomic.Int64) *outbox {
	o := &outbox{nc: nc, bare: bare(nc), ofAll: ofAll, changed: make(chan struct{}, 1)}
	o.less.L = &o.mu
	return o
}

// awaitRoom waits until the client has read enough, or nothing will be added.
func (o *outbox) awaitRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.last && len(o.queue)+o.writing+o.waiting > enoughUnsent {
		o.less.Wait()
	}
}

// reserve says that frames of so many bytes will be put, or, if negative, that they are now.
func (o *outbox) reserve(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += bytes
	o.ofAll.Add(int64(bytes))
}

// put adds a frame. A client that does not read loses its connection. An in-process connection gets
// the part that its buffer has room for directly.
func (o *outbox) put(frame []byte) {
	o.mu.Lock()
	pipe, direct := o.nc.(*pipeEnd)
	if direct = direct && !o.last && o.writing == 0 && len(o.queue) == 0; direct {
		frame = frame[pipe.writeNow(frame):]
	}
	if !o.last {
		o.queue = append(o.queue, frame...)
		o.ofAll.Add(int64(len(frame)))
	}
	unsent := len(o.queue) + o.writing + o.waiting
	empty, full := len(o.queue) == 0, unsent > maxUnsent || unsent > fairUnsent && o.ofAll.Load() > maxUnsentOfAll
	o.mu.Unlock()
	if full {
		o.cut()
	}
	if !empty {
		o.wake()
	}
}

// finish lets the writer close the connection after it has written the queue.
func (o *outbox) finish() {
	o.mu.Lock()
	if !o.last {
		o.last = true
		o.less.Broadcast()
		_ = o.nc.SetWriteDeadline(time.Now().Add(flushTimeout))
	}
	o.mu.Unlock()
	o.wake()
}

// cut closes the connection at once and drops the queue.
func (o *outbox) cut() {
	o.mu.Lock()
	o.ofAll.Add(-int64(len(o.queue)))
	o.last, o.queue = true, nil
	o.less.Broadcast()
	o.mu.Unlock()
	_ = o.bare.Close()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.changed <- struct{}{}:
	default: // the writer takes the whole queue at each wake-up
	}
}

// write is the writer goroutine.
func (o *outbox) write() {
	defer o.nc.Close()
	for range o.changed {
		o.mu.Lock()
		batch, last := o.queue, o.last
		o.queue, o.writing = nil, len(batch)
		o.mu.Unlock()
		var err error
		if len(batch) > 0 {
			_, err = o.nc.Write(batch)
		}
		o.mu.Lock()
		o.writing = 0
		o.less.Broadcast()
		o.mu.Unlock()
		o.ofAll.Add(-int64(len(batch)))
		if err != nil {
			o.cut()
			return
		}
		if last {
			return
		}
	}
}

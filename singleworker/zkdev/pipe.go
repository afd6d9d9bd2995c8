package zkdev

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many bytes a pipe holds before a writer has to wait: about
// what two sockets hold.
const pipeBuffer = 256 << 10

// newPipe returns the two ends of a buffered connection in memory. Whoever waits on
// one waits on a channel, so time goes on in a bubble of testing/synctest.
func newPipe(clientName, serverName string) (client, server net.Conn) {
	there, back := newHalf(), newHalf()
	return &pipeEnd{in: back, out: there, local: pipeAddr(clientName), remote: pipeAddr(serverName)},
		&pipeEnd{in: there, out: back, local: pipeAddr(serverName), remote: pipeAddr(clientName)}
}

type pipeAddr string

func (pipeAddr) Network() string  { return "in-process" }
func (a pipeAddr) String() string { return string(a) }

// A half carries bytes in one direction.
type half struct {
	mu      sync.Mutex
	buf     []byte        // guarded by mu
	closed  error         // guarded by mu; what the reader gets after the last byte
	changed chan struct{} // guarded by mu; closed at each change
}

func newHalf() *half { return &half{changed: make(chan struct{})} }

// change calls f, which may change the half, and wakes whoever waits for that.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) close(err error) {
	h.change(func() {
		if h.closed == nil {
			h.closed = err
		}
	})
}

// read takes what is there, or returns a channel that says when to try again.
func (h *half) read(p []byte) (n int, wait <-chan struct{}, err error) {
	h.mu.Lock()
	n = copy(p, h.buf)
	full := len(h.buf) >= pipeBuffer
	h.buf = h.buf[n:]
	if n == 0 && len(p) > 0 {
		wait, err = h.changed, h.closed
	}
	if full && n > 0 { // a writer may be waiting
		close(h.changed)
		h.changed = make(chan struct{})
	}
	h.mu.Unlock()
	return n, wait, err
}

// write adds what there is room for, or returns a channel that says when to try again.
func (h *half) write(p []byte) (n int, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return 0, nil, io.ErrClosedPipe
	}
	n = min(len(p), pipeBuffer-len(h.buf))
	if n == 0 && len(p) > 0 {
		return 0, h.changed, nil
	}
	h.buf = append(h.buf, p[:n]...)
	close(h.changed)
	h.changed = make(chan struct{})
	return n, nil, nil
}

// A pipeEnd is a net.Conn. Like a socket it may be used by one reader, one writer
// and anybody who closes it at once.
type pipeEnd struct {
	in, out       *half
	local, remote pipeAddr

	readDeadline, writeDeadline deadline
}

func (e *pipeEnd) LocalAddr() net.Addr  { return e.local }
func (e *pipeEnd) RemoteAddr() net.Addr { return e.remote }

func (e *pipeEnd) Read(p []byte) (int, error) {
	n, err := retryUntil(&e.readDeadline, func() (int, <-chan struct{}, error) { return e.in.read(p) })
	if err != nil && !errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: e.local.Network(), Addr: e.remote, Err: err}
	}
	return n, err
}

func (e *pipeEnd) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := retryUntil(&e.writeDeadline, func() (int, <-chan struct{}, error) { return e.out.write(p[written:]) })
		written += n
		if err != nil {
			return written, &net.OpError{Op: "write", Net: e.local.Network(), Addr: e.remote, Err: err}
		}
	}
	return written, nil
}

// Close ends both directions. The other end may still read what was written.
func (e *pipeEnd) Close() error {
	e.out.close(io.EOF)
	e.in.change(func() {
		e.in.closed = net.ErrClosed
		e.in.buf = nil
	})
	e.readDeadline.set(time.Time{}) // stops the timers
	e.writeDeadline.set(time.Time{})
	return nil
}

// SetDeadline, SetReadDeadline and SetWriteDeadline also apply to a call that is waiting.
func (e *pipeEnd) SetDeadline(t time.Time) error {
	e.readDeadline.set(t)
	e.writeDeadline.set(t)
	return nil
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.readDeadline.set(t)
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.writeDeadline.set(t)
	return nil
}

// retryUntil repeats try while it asks to wait, up to the deadline.
func retryUntil(d *deadline, try func() (int, <-chan struct{}, error)) (int, error) {
	for {
		expired, moved := d.state()
		if expired {
			return 0, os.ErrDeadlineExceeded
		}
		n, wait, err := try()
		if wait == nil || err != nil {
			return n, err
		}
		select {
		case <-wait:
		case <-moved:
		}
	}
}

// A deadline is a time that can be moved while somebody waits for it.
type deadline struct {
	mu      sync.Mutex
	at      time.Time     // guarded by mu
	timer   *time.Timer   // guarded by mu
	changed chan struct{} // guarded by mu; closed when it is moved or over
}

// state reports whether the deadline is over, and how to hear of a change.
func (d *deadline) state() (expired bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return !d.at.IsZero() && !time.Now().Before(d.at), d.changed
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	d.wake()
	if t.IsZero() {
		if d.timer != nil {
			d.timer.Stop()
		}
		return
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(t), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.wake()
		})
		return
	}
	d.timer.Reset(time.Until(t))
}

// wake is called with mu held.
func (d *deadline) wake() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

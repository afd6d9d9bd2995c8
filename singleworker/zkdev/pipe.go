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
// one waits on a condition, so time goes on in a bubble of testing/synctest.
func newPipe(clientName, serverName string, latency Latency) (client, server net.Conn) {
	there, back := newHalf(latency.There), newHalf(latency.Back)
	return &pipeEnd{in: back, out: there, local: pipeAddr(clientName), remote: pipeAddr(serverName)},
		&pipeEnd{in: there, out: back, local: pipeAddr(serverName), remote: pipeAddr(clientName)}
}

type pipeAddr string

func (pipeAddr) Network() string  { return "in-process" }
func (a pipeAddr) String() string { return string(a) }

// A half carries bytes in one direction, from one writer to one reader.
type half struct {
	latency func() time.Duration // of each write; nil for none

	mu      sync.Mutex
	changed sync.Cond // of what follows, all guarded by mu
	waiting int       // how many wait for that
	buf     []byte    // written and not read
	arrived int       // how much of it can be read
	travels []parcel  // what the rest of it is, in order
	closed  error     // what the reader gets after the last byte

	readDeadline, writeDeadline time.Time
	forReader, forWriter        alarm
}

// A parcel is bytes that are under way.
type parcel struct {
	arrives time.Time
	length  int
}

func newHalf(latency func() time.Duration) *half {
	h := &half{latency: latency}
	h.changed.L = &h.mu
	return h
}

// wake is called with mu held, after each change that somebody may wait for.
func (h *half) wake() {
	if h.waiting > 0 {
		h.changed.Broadcast()
	}
}

// wait is called with mu held. It returns after a change, or at the first of the times, or sooner.
func (h *half) wait(a *alarm, times ...time.Time) {
	for _, at := range times {
		a.ring(h, at)
	}
	h.waiting++
	h.changed.Wait()
	h.waiting--
}

// arrive is called with mu held. It takes in what has arrived, and returns when the next parcel
// does.
func (h *half) arrive() (next time.Time) {
	if len(h.travels) == 0 {
		return time.Time{}
	}
	now := time.Now()
	for len(h.travels) > 0 {
		if first := h.travels[0]; first.arrives.After(now) {
			return first.arrives
		}
		h.arrived += h.travels[0].length
		h.travels = h.travels[1:]
	}
	return time.Time{}
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if isOver(h.readDeadline) {
			return 0, os.ErrDeadlineExceeded
		}
		next := h.arrive()
		switch {
		case h.arrived > 0 || len(p) == 0:
			full := len(h.buf) >= pipeBuffer
			n := copy(p, h.buf[:h.arrived])
			h.arrived -= n
			if h.buf = h.buf[n:]; len(h.buf) == 0 {
				h.buf = nil // the next write makes one that fits
			}
			if full {
				h.wake()
			}
			return n, nil
		case len(h.buf) == 0 && h.closed != nil:
			return 0, h.closed
		}
		h.wait(&h.forReader, next, h.readDeadline)
	}
}

func (h *half) write(p []byte) (written int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if isOver(h.writeDeadline) {
			return written, os.ErrDeadlineExceeded
		}
		n, err := h.put(p[written:])
		if written += n; err != nil || written == len(p) {
			return written, err
		}
		h.wait(&h.forWriter, h.writeDeadline)
	}
}

// put is called with mu held. It adds what there is room for.
func (h *half) put(p []byte) (int, error) {
	if h.closed != nil {
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), pipeBuffer-len(h.buf))
	if n == 0 {
		return 0, nil
	}
	h.buf = append(h.buf, p[:n]...)
	if h.latency == nil {
		h.arrived += n
	} else {
		at := time.Now().Add(h.latency())
		if last := len(h.travels) - 1; last >= 0 && h.travels[last].arrives.After(at) {
			at = h.travels[last].arrives // nothing overtakes
		}
		h.travels = append(h.travels, parcel{at, n})
	}
	h.wake()
	return n, nil
}

// endWrites lets the reader have what was written, and then the end.
func (h *half) endWrites() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed == nil {
		h.closed = io.EOF
	}
	h.writeDeadline = time.Time{}
	h.forWriter.stop()
	h.wake()
}

// endReads drops what was not read.
func (h *half) endReads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.buf, h.travels, h.arrived = net.ErrClosed, nil, nil, 0
	h.readDeadline = time.Time{}
	h.forReader.stop()
	h.wake()
}

func isOver(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// An alarm wakes whoever waits. It is guarded by the half's mu. Deadlines are moved with
// every frame, mostly ahead, so it rings too early rather than being set each time.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero unless set
}

// ring sets the alarm, unless it rings sooner anyway. There is none at the zero time.
func (a *alarm) ring(h *half, at time.Time) {
	if at.IsZero() || !a.at.IsZero() && !a.at.After(at) {
		return
	}
	a.at = at
	if a.timer != nil {
		a.timer.Reset(time.Until(at))
		return
	}
	a.timer = time.AfterFunc(time.Until(at), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		a.at = time.Time{}
		h.wake()
	})
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.at = time.Time{}
	}
}

// A pipeEnd is a net.Conn. Like a socket it may be used by one reader, one writer
// and anybody who closes it at once.
type pipeEnd struct {
	in, out       *half
	local, remote pipeAddr
}

func (e *pipeEnd) LocalAddr() net.Addr  { return e.local }
func (e *pipeEnd) RemoteAddr() net.Addr { return e.remote }

func (e *pipeEnd) Read(p []byte) (int, error) {
	n, err := e.in.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &net.OpError{Op: "read", Net: e.local.Network(), Addr: e.remote, Err: err}
	}
	return n, err
}

func (e *pipeEnd) Write(p []byte) (int, error) {
	n, err := e.out.write(p)
	if err != nil {
		err = &net.OpError{Op: "write", Net: e.local.Network(), Addr: e.remote, Err: err}
	}
	return n, err
}

// writeNow writes what there is room for, and does not wait.
func (e *pipeEnd) writeNow(p []byte) int {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	n, _ := e.out.put(p) // the next Write has the same error
	return n
}

// Close ends both directions. The other end may still read what was written.
func (e *pipeEnd) Close() error {
	e.out.endWrites()
	e.in.endReads()
	return nil
}

// SetDeadline, SetReadDeadline and SetWriteDeadline also apply to a call that is waiting.
func (e *pipeEnd) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	e.in.readDeadline = t
	e.in.wake()
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	e.out.writeDeadline = t
	e.out.wake()
	return nil
}

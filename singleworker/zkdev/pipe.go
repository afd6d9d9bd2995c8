package zkdev

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many bytes a pipe holds before writes block: about as many as two sockets.
const pipeBuffer = 256 << 10

// newPipe returns the two ends of a buffered in-memory connection. Blocked calls wait on a
// condition, so virtual time advances in a testing/synctest bubble.
func newPipe(clientName, serverName string, latency Latency) (client, server net.Conn) {
	there, back := newHalf(latency.There), newHalf(latency.Back)
	if there.order = latency.Order; there.order != 0 {
		there.apart, back.apart = Apart, Apart
	}
	return &pipeEnd{in: back, out: there, local: pipeAddr(clientName), remote: pipeAddr(serverName)},
		&pipeEnd{in: there, out: back, local: pipeAddr(serverName), remote: pipeAddr(clientName)}
}

type pipeAddr string

func (pipeAddr) Network() string  { return "in-process" }
func (a pipeAddr) String() string { return string(a) }

// A half carries bytes in one direction, from one writer to one reader.
type half struct {
	latency func() time.Duration // of each write; nil for none
	apart   time.Duration        // the time between arrivals; 0: they may be together
	order   uint64               // see Latency.Order

	mu      sync.Mutex // guards the fields below
	changed sync.Cond  // signaled when one of them changes
	waiting int        // number of waiters
	buf     []byte     // written but not read
	arrived int        // how much of buf can be read
	travels []parcel   // the rest of buf, in order
	closed  error      // returned to the reader after the last byte

	readDeadline, writeDeadline time.Time
	forReader, forWriter        alarm
}

// A parcel is a number of bytes in flight.
type parcel struct {
	sent, arrives time.Time
	length        int
	whole         bool // they are all of a write
}

func newHalf(latency func() time.Duration) *half {
	h := &half{latency: latency}
	h.changed.L = &h.mu
	return h
}

// wake wakes the waiters. The caller holds mu.
func (h *half) wake() {
	if h.waiting > 0 {
		h.changed.Broadcast()
	}
}

// wait returns after a change, or at the first of the times, or earlier. The caller holds mu.
func (h *half) wait(a *alarm, times ...time.Time) {
	for _, at := range times {
		a.ring(h, at)
	}
	h.waiting++
	h.changed.Wait()
	h.waiting--
}

// arrive makes the bytes readable that have arrived, and returns when the next parcel arrives. The
// caller holds mu.
func (h *half) arrive() (next time.Time) {
	if len(h.travels) == 0 {
		return time.Time{}
	}
	now := time.Now()
	for len(h.travels) > 0 {
		if first := h.travels[0]; first.arrives.After(now) {
			return first.arrives
		}
		if h.order != 0 {
			h.sort()
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
				h.buf = nil // the next write allocates one that fits
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
		n, err := h.put(p[written:], written == 0)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
		h.wait(&h.forWriter, h.writeDeadline)
	}
}

// put adds as many bytes as there is room for; first says that they are the first of a write. The
// caller holds mu.
func (h *half) put(p []byte, first bool) (int, error) {
	if h.closed != nil {
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), pipeBuffer-len(h.buf))
	if n == 0 {
		return 0, nil
	}
	h.buf = append(h.buf, p[:n]...)
	if h.order != 0 && first && n == len(p) {
		canonical(h.buf[len(h.buf)-n:])
	}
	if h.latency == nil {
		h.arrived += n
	} else {
		now := time.Now()
		at := now.Add(h.latency())
		if h.apart > 0 {
			at = at.Add(h.apart - 1).Truncate(h.apart)
		}
		if last := len(h.travels) - 1; last >= 0 && !h.travels[last].arrives.Add(h.apart).Before(at) {
			at = h.travels[last].arrives.Add(h.apart) // nothing overtakes
		}
		h.travels = append(h.travels, parcel{now, at, n, first && n == len(p)})
	}
	h.wake()
	return n, nil
}

// endWrites lets the reader have the bytes written so far, followed by EOF.
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

// endReads drops the unread bytes.
func (h *half) endReads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.buf, h.travels, h.arrived = net.ErrClosed, nil, nil, 0
	h.readDeadline = time.Time{}
	h.forReader.stop()
	h.wake()
}

func isOver(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// An alarm wakes the waiters of a half and is guarded by its mu. Deadlines move with every frame,
// mostly forward, so the alarm rings too early rather than being reset each time.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero unless set
}

// ring sets the alarm unless at is zero or the alarm rings earlier anyway.
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

// A pipeEnd is a net.Conn. Like a socket, it can be used by one reader, one writer and any number
// of closers at the same time.
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

// writeNow writes as much as there is room for, without blocking.
func (e *pipeEnd) writeNow(p []byte) int {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	n, _ := e.out.put(p, true) // the next Write has the same error
	return n
}

// Close ends both directions. The other end can still read the bytes written before.
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

package swtest

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Stall holds up a process's connections, as when the process is stopped: while it lasts, they send
// and receive nothing, and no deadline ends that. The process's timers keep running, unlike a
// stopped process's. The zero value is a stall that has not begun. Safe for concurrent use.
type Stall struct {
	mu   sync.Mutex
	over chan struct{} // closed at the end; nil unless it lasts
}

// Begin begins the stall, unless it lasts already.
func (s *Stall) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = make(chan struct{})
	}
}

// End ends the stall, if it lasts.
func (s *Stall) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		close(s.over)
		s.over = nil
	}
}

// Conn returns a connection that the stall holds up. It has one reader and one writer, and may be
// closed by anybody.
func (s *Stall) Conn(conn net.Conn) net.Conn {
	return &stallable{Conn: conn, stall: s, closed: make(chan struct{})}
}

type stallable struct {
	net.Conn
	stall  *Stall
	once   sync.Once
	closed chan struct{}
}

// grace is how long after a stall it may take to read the bytes that have come meanwhile.
const grace = 10 * time.Millisecond

func (c *stallable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.outlive() {
			return n, err
		}
		// The process that was paused finds the bytes that have come meanwhile before its deadline.
		_ = c.SetReadDeadline(time.Now().Add(grace))
	}
}

func (c *stallable) Write(p []byte) (int, error) {
	c.outlive()
	return c.Conn.Write(p)
}

// outlive waits for the end of the stall. It returns false if no stall is in progress or the
// connection is closed.
func (c *stallable) outlive() bool {
	c.stall.mu.Lock()
	over := c.stall.over
	c.stall.mu.Unlock()
	if over == nil {
		return false
	}
	select {
	case <-over:
		return true
	case <-c.closed:
		return false
	}
}

func (c *stallable) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

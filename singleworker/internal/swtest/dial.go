package swtest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

var errKilled = errors.New("swtest: the instance was killed")

// dial connects the instance to the server, by its own place on the network.
func (i *Instance) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if i.State() == Killed {
		return nil, errKilled
	}
	if i.setup.Dial != nil {
		conn, err := i.setup.Dial(ctx, i.Client)
		return i.hanging(conn, err)
	}
	conn, err := i.Client.Dial(ctx, network, address)
	return i.hanging(conn, err)
}

func (i *Instance) hanging(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &hangingConn{Conn: Settle(conn), instance: i, closed: make(chan struct{})}, nil
}

// hangingConn is a connection whose deadlines pass unnoticed while its instance is
// stalled. It has one reader and one writer, and is closed by anybody.
type hangingConn struct {
	net.Conn
	instance *Instance
	once     sync.Once
	closed   chan struct{}
}

func (c *hangingConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if !c.outlive(err) {
			return n, err
		}
		// The process that was paused finds what has come meanwhile before its deadline.
		_ = c.SetReadDeadline(time.Now().Add(grace))
	}
}

// grace is how long after a stall what has come meanwhile may take to be read.
const grace = 10 * time.Millisecond

func (c *hangingConn) Write(p []byte) (int, error) {
	c.outlive(os.ErrDeadlineExceeded)
	return c.Conn.Write(p)
}

// outlive waits for the end of a stall, if there is one that hides err.
func (c *hangingConn) outlive(err error) bool {
	stalled := c.instance.Stalled()
	if stalled == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	select {
	case <-stalled:
		return true
	case <-c.closed:
		return false
	}
}

func (c *hangingConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

package zkconn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// DialFunc opens a connection to a server.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// hosts is the library's HostProvider. Names are not resolved here but by the
// dialer at every attempt, so that a server that moved is found again.
type hosts struct {
	mu        sync.Mutex
	servers   []string
	next      int
	tries     int // since the latest success
	connected time.Time
}

var _ zk.HostProvider = (*hosts)(nil)

// briefly is how long a connection must have lasted for the next attempt to
// follow at once: a server that accepts and hangs up is not asked in a loop.
const briefly = time.Second

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try; retryStart makes the library fail what is
// queued and pause for a second, after each full turn.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	retryStart = h.tries > 0 && h.tries%len(h.servers) == 0 ||
		h.tries == 0 && time.Since(h.connected) < briefly
	h.tries++
	return server, retryStart
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries, h.connected = 0, time.Now()
}

// handshake is a connection as the library needs it. Until the server's connect
// response has been read it notes the session timeout granted there, and puts a
// deadline on the whole of it, which the library does not. After that it sees
// to it that a broken connection is noticed in one place only.
type handshake struct {
	net.Conn
	deadline time.Time
	granted  *atomic.Int64 // nanoseconds
	answered atomic.Bool   // the response was read

	head []byte // the response's first bytes; nil once they were read
}

// The connect response: length, protocol version, granted timeout in
// milliseconds, each four bytes.
const headBytes = 12

func (c *handshake) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.head != nil {
		c.head = append(c.head, p[:min(n, headBytes-len(c.head))]...)
		if len(c.head) == headBytes {
			// An expired session is answered with a timeout of 0.
			if ms := binary.BigEndian.Uint32(c.head[8:]); ms > 0 {
				c.granted.Store(int64(time.Duration(ms) * time.Millisecond))
			}
			c.head = nil
			c.answered.Store(true)
		}
	}
	return n, err
}

// Write hangs up instead of reporting an error: the next read fails, and the
// library answers the request once, as one whose connection was lost. A request
// whose writing failed it would answer twice: first with the network's error,
// which would pass for the server's word; and for the second answer it may
// wait for ever until somebody takes it, as at Close, or while it repeats the
// credentials.
func (c *handshake) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(p); err != nil {
		_ = c.Close()
	}
	return len(p), nil
}

func (c *handshake) SetReadDeadline(t time.Time) error {
	if c.head != nil && (t.IsZero() || t.After(c.deadline)) {
		t = c.deadline
	}
	return c.Conn.SetReadDeadline(t)
}

// dialer adapts a DialFunc to the library.
func (c *Conn) dialer(cfg Config) zk.Dialer {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(network, address string, timeout time.Duration) (_ net.Conn, err error) {
		defer func() { c.trouble.Store(&err) }()
		ctx, cancel := context.WithTimeout(c.closing, timeout)
		defer cancel()
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if cfg.TLS != nil {
			if raw, err = secure(ctx, raw, cfg.TLS, address); err != nil {
				return nil, err
			}
		}
		conn := &handshake{
			Conn: raw, head: make([]byte, 0, headBytes), granted: &c.granted,
			deadline: time.Now().Add(cfg.SessionTimeout),
		}
		c.current.Store(conn)
		if c.closing.Err() != nil {
			_ = raw.Close() // Close came first and did not see it
		}
		return conn, nil
	}
}

// hangUp closes the connection in use, if there is one.
func (c *Conn) hangUp() {
	if conn := c.current.Load(); conn != nil {
		_ = conn.Close()
	}
}

func secure(ctx context.Context, raw net.Conn, cfg *tls.Config, address string) (net.Conn, error) {
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

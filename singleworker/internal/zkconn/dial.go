package zkconn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
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
	searching time.Time // since when there is no connection
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
	if h.tries == 0 {
		h.searching = time.Now()
	}
	h.tries++
	return server, retryStart
}

// What an attempt may take, where the session's timeout is long enough for it.
const (
	leastPatience = time.Second // a lost packet is sent again after as long
	mostPatience  = 10 * time.Second
)

// patience is how long the attempt that Next began may take, from the lookup of the name to the end
// of the handshake. A silent server is noticed after two thirds of the session timeout, and if the
// next one hangs, the one after that must still find the session alive. The longer there has been no
// connection, the less there is to lose, and the more time slow names and long ways get.
func (h *hosts) patience(session time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	session = max(session, time.Since(h.searching))
	share := session / time.Duration(len(h.servers)+1)
	return min(max(share, leastPatience), session/3, mostPatience)
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries, h.connected = 0, time.Now()
}

// handshake is a connection as the library needs it. Until the server's connect
// response has been read it notes the session timeout granted there, and keeps to the
// deadline of the attempt, which the library does not. After that it sees
// to it that a broken connection is noticed in one place only.
type handshake struct {
	net.Conn
	address  string
	deadline time.Time
	granted  *atomic.Int64          // nanoseconds
	trouble  *atomic.Pointer[error] // of the Conn
	answered atomic.Bool            // the response was read

	head []byte // the response's first bytes; nil once they were read
}

// The connect response: length, protocol version, granted timeout in
// milliseconds, each four bytes.
const headBytes = 12

// maxGreeting is more than a connect response is long: 36 or 37 bytes.
const maxGreeting = 256

var errNoGreeting = errors.New("the answer is not a ZooKeeper server's")

func (c *handshake) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.head != nil {
		c.head = append(c.head, p[:min(n, headBytes-len(c.head))]...)
		switch {
		case len(c.head) >= 4 && binary.BigEndian.Uint32(c.head) > maxGreeting:
			n, err = 0, errNoGreeting // before the library makes room for as much; with n it would not look at err
		case len(c.head) == headBytes:
			// An expired session is answered with a timeout of 0.
			if ms := binary.BigEndian.Uint32(c.head[8:]); ms > 0 {
				c.granted.Store(int64(time.Duration(ms) * time.Millisecond))
			}
			c.head = nil
			c.answered.Store(true)
			c.trouble.Store(nil)
		}
	}
	if err != nil && !c.answered.Load() {
		err = fmt.Errorf("handshake with %s: %w", c.address, err)
		c.trouble.Store(&err)
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

// dialer adapts a DialFunc to the library, whose own timeout, a constant second, it does not heed.
func (c *Conn) dialer(cfg Config, servers *hosts) zk.Dialer {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(network, address string, _ time.Duration) (_ net.Conn, err error) {
		defer func() {
			if err != nil {
				c.trouble.Store(&err)
			}
		}()
		deadline := time.Now().Add(servers.patience(c.SessionTimeout()))
		ctx, cancel := context.WithDeadline(c.closing, deadline)
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
			Conn: raw, head: make([]byte, 0, headBytes), address: address, deadline: deadline,
			granted: &c.granted, trouble: &c.trouble,
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

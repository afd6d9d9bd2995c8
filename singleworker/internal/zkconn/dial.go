package zkconn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DialFunc opens a connection to a server.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// hosts is the library's HostProvider. It does not resolve names: the dialer does at every attempt,
// so that a server with a new address is found.
type hosts struct {
	mu        sync.Mutex
	servers   []string
	next      int
	tries     int // since the latest connection
	connected time.Time
	searching time.Time // when the connection was lost
	known     map[string]*known
}

// minUptime is how long a connection must have lasted for the next attempt to follow at once, so
// that a server that accepts and hangs up does not cause a busy loop.
const minUptime = time.Second

func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next returns the server to try. retryStart, set after each round through the servers, makes the
// library fail queued requests and pause for a second.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	retryStart = h.tries > 0 && h.tries%len(h.servers) == 0 ||
		h.tries == 0 && time.Since(h.connected) < minUptime
	if h.tries == 0 {
		h.searching = time.Now()
	}
	h.tries++
	return server, retryStart
}

// Bounds of an attempt's time limit, if the session timeout is long enough for them.
const (
	minAttempt = time.Second // a lost TCP packet is sent again after a second
	maxAttempt = 10 * time.Second
)

// attemptTimeout returns the time limit of the attempt that Next started, from name resolution to
// the end of the handshake. A silent server is noticed after two thirds of the session timeout; if
// the next server hangs, the one after that must still find the session alive. The longer there has
// been no connection, the less there is to lose, so slow name servers and networks get more time.
func (h *hosts) attemptTimeout(session time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	session = max(session, time.Since(h.searching))
	share := session / time.Duration(len(h.servers)+1)
	return min(max(share, minAttempt), session/3, maxAttempt)
}

// isOver reports whether a session must be over: no server has answered it for as long as its
// timeout.
func (h *hosts) isOver(session time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.searching) > session
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries, h.connected = 0, time.Now()
}

// handshake wraps a connection for the library. Until the server's connect response has been read,
// it records the granted session timeout and enforces the deadline of the attempt, which the
// library does not. It passes on whole frames that the library can decode, and nothing else; see
// stream.go. It also puts bulk requests, which the library does not know, in the place of others;
// see bulk.go. After that it makes sure that a broken connection is reported in one place only.
type handshake struct {
	net.Conn
	address  string
	deadline time.Time
	granted  *atomic.Int64          // nanoseconds
	trouble  *atomic.Pointer[error] // of the Conn
	stale    *atomic.Bool           // of the Conn; nil: a read-only server will not do
	traffic  *Traffic               // of the Conn, or nil
	answered atomic.Bool            // the response was read
	unseen   bool                   // the server is not told what the session has seen; see refused
	resumes  int64                  // the session that the server is asked to continue, or 0

	frame    []byte // what was checked and not read yet; only for the reader
	requests requests
}

// maxGreeting exceeds the length of a connect response, which is 36 or 37 bytes.
const maxGreeting = 256

var errNoGreeting = errors.New("the reply is not that of a ZooKeeper server")

func (c *handshake) Read(p []byte) (int, error) {
	for len(c.frame) == 0 {
		if err := c.nextFrame(); err != nil {
			if !c.answered.Load() {
				c.refused(err)
			}
			switch {
			case c.answered.Load() && hungUp(err):
				if unknown := c.requests.hungUp(); unknown != "" {
					c.requests.session.conn.cfg.Logger.Warn("the server hangs up on a request that it does not know: doing without, which costs more requests",
						"server", c.address, "request", unknown)
				}
			case c.answered.Load() && errors.Is(err, errMalformed):
				err = fmt.Errorf("server %s: %w", c.address, err)
				c.trouble.Store(&err)
			case !c.answered.Load():
				err = fmt.Errorf("handshake with %s: %w", c.address, err)
				if hungUp(err) {
					err = fmt.Errorf("%w; %s", err, WhyHungUp)
				}
				c.trouble.Store(&err)
			}
			return 0, err
		}
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

// nextFrame reads a frame and checks it.
func (c *handshake) nextFrame() error {
	if !c.answered.Load() {
		frame, err := readFrame(c.Conn, maxGreeting)
		if errors.Is(err, errMalformed) {
			return errNoGreeting // before the library allocates as much
		}
		if err != nil {
			return err
		}
		timeout, err := parseGreeting(frame[lengthBytes:])
		if err != nil {
			return err
		}
		if why := c.otherSession(frame, timeout); why != "" {
			c.giveUp(frame, timeout, why)
			timeout = 0
		}
		if timeout > 0 { // an expired session is answered with a timeout of 0
			c.granted.Store(int64(timeout))
			if c.stale != nil && len(frame) > greetReadOnlyAt && frame[greetReadOnlyAt] != 0 {
				c.stale.Store(true)
			}
		}
		c.frame = frame
		c.traffic.receive(frame)
		c.answered.Store(true)
		c.trouble.Store(nil)
		return nil
	}
	frame, err := c.requests.readReply(c.Conn)
	if err != nil {
		return err
	}
	c.traffic.receive(frame)
	if frame, err = c.requests.receive(frame); err != nil {
		return err
	}
	c.frame = frame
	return nil
}

// A server that knows less than the session has seen hangs up without a word, as one does that is
// not in service. One that lags catches up. One that was restored from a backup, or emptied, would
// do that until it has counted as many transactions, so a session that must be over is continued at
// the next attempt without telling the last transaction that it has seen. A server that answers
// that is in service. Whatever the answer is, the session ends.
//
// ClickHouse Keeper, by its source, continues no session: it answers with a new one, as if that
// were the old one. Requests that were made in the old one would be sent there.

// refused notes that a server has not answered the handshake.
func (c *handshake) refused(err error) {
	c.requests.session.doubtful.Store(hungUp(err) && !c.unseen && c.requests.seen > 0)
}

// WhyHungUp names the possible reasons of a server that accepts a connection and hangs up: it does
// not say which one it has.
const WhyHungUp = "the server may have no quorum, be starting, expect TLS or not know it, have too many connections from here " +
	"(maxClientCnxns), or have less than the session has seen"

func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// otherSession returns why the session of a response is not the one to go on in, or "".
func (c *handshake) otherSession(response []byte, granted time.Duration) (why string) {
	switch {
	case c.unseen:
		return "session given up: the server knows less than it has seen; restored from a backup, or emptied?"
	case granted > 0 && c.resumes != 0 && int64(binary.BigEndian.Uint64(response[greetSessionAt:])) != c.resumes:
		return "session given up: the server has begun another in its place, as ClickHouse Keeper does"
	}
	return ""
}

// giveUp ends the session of a response, if there is one, and makes that a response to an expired
// session.
func (c *handshake) giveUp(response []byte, granted time.Duration, why string) {
	if granted > 0 {
		if _, err := c.Conn.Write(closeSession); err == nil {
			_, _ = readFrame(c.Conn, maxFrame) // else its nodes go with its timeout
		}
	}
	clear(response[greetTimeoutAt:greetPasswordAt])
	c.requests.session.conn.cfg.Logger.Warn(why, "server", c.address, "seen_zxid", fmt.Sprintf("0x%x", c.requests.seen))
}

// Write hangs up instead of returning an error: the next read fails, and the library answers the
// request once, as one whose connection was lost. After a failed write it would answer twice: first
// with the network error, which callers would take for a reply of the server; and then it can block
// forever on the second answer, at Close or while it repeats the credentials.
func (c *handshake) Write(p []byte) (int, error) {
	var frames []byte
	switch {
	case c.answered.Load():
		frames = c.requests.send(p)
		c.traffic.send(frames)
	case c.unseen:
		frames = withZxid(p, connectZxidAt, 0)
	default:
		frames = withZxid(p, connectZxidAt, c.requests.seen)
		if len(p) >= connectSessionAt+8 {
			c.resumes = int64(binary.BigEndian.Uint64(p[connectSessionAt:]))
		}
	}
	if !c.answered.Load() && c.stale != nil {
		frames = withReadOnly(frames)
	}
	if _, err := c.Conn.Write(frames); err != nil {
		_ = c.Close()
	}
	return len(p), nil
}

func (c *handshake) SetReadDeadline(t time.Time) error {
	if !c.answered.Load() && (t.IsZero() || t.After(c.deadline)) {
		t = c.deadline
	}
	return c.Conn.SetReadDeadline(t)
}

// dial is the library's dialer for session s. It ignores the library's timeout, a constant second.
func (c *Conn) dial(s *session, network, address string) (_ net.Conn, err error) {
	<-s.begun
	if s.expired.Load() {
		return nil, errExpired // the next session is not this one's to begin
	}
	defer func() {
		if err != nil {
			c.trouble.Store(&err)
		}
	}()
	deadline := time.Now().Add(c.servers.attemptTimeout(c.SessionTimeout()))
	ctx, cancel := context.WithDeadline(c.closing, deadline)
	defer cancel()
	raw, err := c.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := &handshake{
		Conn: raw, address: address, deadline: deadline,
		unseen:  s.doubtful.Load() && c.servers.isOver(c.SessionTimeout()),
		granted: &c.granted, trouble: &c.trouble, traffic: c.cfg.Traffic, requests: requests{session: s, seen: s.zxid.Load(), known: c.servers.knownOf(address), traffic: c.cfg.Traffic},
	}
	if c.cfg.ReadOnly {
		conn.stale = &c.stale
	}
	s.current.Store(conn)
	if c.closing.Err() != nil {
		_ = raw.Close() // Close was called before s.current was set
	}
	return conn, nil
}

// connect opens a connection to a server, and secures it if that is configured.
func (c *Conn) connect(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	if path, ok := socketOf(address); ok {
		raw, err := dial(ctx, "unix", path)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("no process serves it (swctl serve --data, or a program with package zkdev/durable): %w", err)
		}
		return raw, err
	}
	raw, err := dial(ctx, network, address)
	if err != nil || c.cfg.TLS == nil {
		return raw, err
	}
	return secure(ctx, raw, c.cfg.TLS, address)
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
		return nil, fmt.Errorf("%w with %s: %w", ErrTLS, address, err)
	}
	return conn, nil
}

package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// maxFrame limits the length of a frame from the server. Nodes are at most 1 MB, but a list of children
// can be longer.
const maxFrame = 8 << 20

// Config configures a connection.
type Config struct {
	Servers        string        // connect string, see ParseServers
	SessionTimeout time.Duration // requested; see Conn.SessionTimeout
	Auth           string        // "user:password" for the digest scheme; "" for none
	ACL            string        // of created nodes, see ParseACL
	TLS            *tls.Config   // nil: plain TCP
	Dial           DialFunc      // nil: net.Dialer
	Logger         *slog.Logger
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events.
const (
	Connected    EventKind = iota // connected; with a new session if it is the first or follows Expired
	Disconnected                  // connection lost; the session may still be alive
	Expired                       // session expired, as reported by the server
	NodeChanged                   // a watched node changed, or its watch is gone
)

// Event is a change of the session or of a watched node.
type Event struct {
	Kind EventKind
	Path string // of the node; "" for session events
}

// Conn is a session. It is safe for concurrent use.
type Conn struct {
	zk      *zk.Conn
	chroot  string
	acl     []zk.ACL
	granted atomic.Int64 // session timeout in nanoseconds
	onEvent func(Event)

	tasks   *task.Group     // runs every call of the library
	closing context.Context //nolint:containedctx // ends with Close; for the library's dialer, which gets no context
	close   context.CancelFunc
	ready   chan struct{}
	current atomic.Pointer[handshake] // the connection in use
	trouble atomic.Pointer[error]     // why the latest connection attempt failed, or nil
	// refused is why no call can be made; set before ready is closed.
	refused error

	mu      sync.Mutex
	closed  bool
	watched map[watch]struct{} // watches set or being set
}

type watch struct {
	path     string
	children bool
}

// Open starts a session and returns before it is connected; calls wait until it is. onEvent is called
// in the order of the events and must not block. The caller must call Close.
func Open(cfg Config, onEvent func(Event)) (*Conn, error) {
	servers, chroot, err := ParseServers(cfg.Servers)
	if err != nil {
		return nil, fmt.Errorf("servers %q: %w", cfg.Servers, err)
	}
	acl, err := ParseACL(cfg.ACL, cfg.Auth != "")
	if err != nil {
		return nil, fmt.Errorf("ACL: %w", err)
	}
	c := &Conn{
		chroot: chroot, acl: acl, onEvent: onEvent,
		tasks: task.NewPool(context.Background()), ready: make(chan struct{}),
		watched: make(map[watch]struct{}),
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.granted.Store(int64(cfg.SessionTimeout))
	provider := &hosts{}
	conn, events, err := zk.Connect(servers, cfg.SessionTimeout,
		zk.WithDialer(c.dialer(cfg, provider)), zk.WithHostProvider(provider),
		zk.WithEventCallback(c.event), zk.WithMaxBufferSize(maxFrame),
		zk.WithLogInfo(false), zk.WithLogger(logAdapter{cfg.Logger}))
	if err != nil {
		c.close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	c.zk = conn
	c.tasks.Go("zookeeper events", func(context.Context) error {
		for range events {
			continue // the callback handles them; this waits for the library's loop to end
		}
		return nil
	})
	c.tasks.Go("zookeeper authentication", func(ctx context.Context) error {
		c.authenticate(ctx, cfg.Auth)
		return nil
	})
	return c, nil
}

// authenticate sends the credentials before any other request. The library repeats them on each
// reconnect.
func (c *Conn) authenticate(ctx context.Context, auth string) {
	defer close(c.ready)
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: time.Second}
	for auth != "" {
		err := opError("auth", "/", c.zk.AddAuth("digest", []byte(auth)))
		switch {
		case err == nil:
			return
		case !IsUnknown(err):
			c.refused = err
			return
		}
		if retry.Wait(ctx) != nil {
			c.refused = &OpError{Op: "auth", Path: "/", Err: ErrLost}
			return
		}
	}
}

// Close ends the session, and with it its ephemeral nodes, if the server is reachable. It waits at most
// one second for an unresponsive server and returns when all goroutines of the connection have ended.
// Pending calls return ErrLost. Close is idempotent.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.tasks.Cancel(ErrLost)
	c.close()
	if conn := c.current.Load(); conn != nil && !conn.answered.Load() {
		c.hangUp() // there is no session to end, but the library would wait for a reply
	}
	c.zk.Close()
	c.hangUp()         // the library has waited for the reply
	_ = c.tasks.Wait() // tasks report errors to their callers
}

// SessionTimeout returns the timeout that the server granted, or the requested one before the first
// connection.
func (c *Conn) SessionTimeout() time.Duration { return time.Duration(c.granted.Load()) }

// SessionID returns the id of the session, or 0 without a session.
func (c *Conn) SessionID() int64 { return c.zk.SessionID() }

// Trouble returns why the latest connection attempt, including its handshake, failed. If it is nil and
// calls are not answered, the server completes the handshake but does not answer requests.
func (c *Conn) Trouble() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// event translates the library's events, on the library's goroutine.
func (c *Conn) event(ev zk.Event) {
	switch {
	case ev.Type != zk.EventSession:
		c.mu.Lock()
		delete(c.watched, watch{ev.Path, false})
		delete(c.watched, watch{ev.Path, true})
		c.mu.Unlock()
		c.onEvent(Event{Kind: NodeChanged, Path: strings.TrimPrefix(ev.Path, c.chroot)})
	case ev.State == zk.StateHasSession:
		c.onEvent(Event{Kind: Connected})
	case ev.State == zk.StateDisconnected:
		c.onEvent(Event{Kind: Disconnected})
	case ev.State == zk.StateExpired:
		c.onEvent(Event{Kind: Expired})
	}
}

// call runs f, one request of the library, on a separate goroutine and returns early if ctx ends. The
// request may still be applied then.
func (c *Conn) call(ctx context.Context, op, path string, f func() error) error {
	select {
	case <-c.ready: // the common case, and cheaper than the select below
	default:
		select {
		case <-c.ready:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return &OpError{Op: op, Path: path, Err: err}
	}
	if c.refused != nil {
		return c.refused
	}
	answer := make(chan error, 1)
	if !c.start(op, func() { answer <- f() }) {
		return &OpError{Op: op, Path: path, Err: ErrLost}
	}
	select {
	case err := <-answer:
		err = opError(op, path, err)
		if errors.Is(err, ErrUnclear) {
			c.pause(ctx) // callers ask again at once
		}
		return err
	case <-ctx.Done():
		return &OpError{Op: op, Path: path, Err: ctx.Err()}
	}
}

// pause keeps a caller that asks again after an unclear answer from asking without end: a server that
// is overloaded gives such answers.
func (c *Conn) pause(ctx context.Context) {
	timer := time.NewTimer(min(c.SessionTimeout()/10, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// start runs f unless the connection is closed: Close waits for the tasks, so none may be added after
// it.
func (c *Conn) start(op string, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go("zookeeper "+op, func(context.Context) error {
		f()
		return nil
	})
	return true
}

// EnsureRoot creates the chroot, if any, and path below it, each node with the connection's ACL.
func (c *Conn) EnsureRoot(ctx context.Context, path string) error {
	full := c.chroot + path
	for i := 1; i <= len(full); i++ {
		if i == len(full) || full[i] == '/' {
			if err := c.ensure(ctx, full[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure creates a node by its full path if it does not exist.
func (c *Conn) ensure(ctx context.Context, full string) error {
	err := c.call(ctx, "create", full, func() error {
		_, err := c.zk.Create(full, nil, 0, c.acl)
		return err
	})
	if errors.Is(err, ErrNodeExists) {
		return nil
	}
	if !errors.Is(err, ErrDenied) {
		return err
	}
	// The server checks the permission first, even if the node exists.
	var found bool
	existsErr := c.call(ctx, "exists", full, func() (err error) {
		found, _, err = c.zk.Exists(full)
		return err
	})
	if existsErr == nil && found {
		return nil
	}
	return err
}

// logAdapter logs the library's messages, which help to find out why a connection fails.
type logAdapter struct{ log *slog.Logger }

func (l logAdapter) Printf(format string, args ...any) {
	l.log.Debug("zookeeper client: " + fmt.Sprintf(format, args...))
}

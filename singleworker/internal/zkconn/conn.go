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

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// maxFrame limits the length of a frame from the server. Nodes are at most 1 MB, but a list of
// children can be longer.
const maxFrame = 8 << 20

// maxSkipped limits the length of a list of children that is not read, but skipped.
const maxSkipped = 256 << 20

// Config configures a connection.
type Config struct {
	Servers        string        // connect string, see ParseServers
	SessionTimeout time.Duration // requested; see Conn.SessionTimeout
	Auth           string        // "user:password" for the digest scheme; "" for none
	ACL            string        // of created nodes, see ParseACL
	TLS            *tls.Config   // nil: plain TCP
	Dial           DialFunc      // nil: net.Dialer
	Logger         *slog.Logger
	Traffic        *Traffic // counts what is sent and received; nil: nobody does
	ReadOnly       bool     // a server without a quorum will do, see Conn.Stale
	// Closed is why the connection is not open, for the errors of calls that are made nevertheless.
	// Nil: ErrClosed says it all.
	Closed error
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
	Gone bool   // the node was deleted
}

// Conn is a session, and the next one when that has expired. It is safe for concurrent use.
type Conn struct {
	cfg     Config
	names   []string // of the servers
	servers hosts
	chroot  string
	acl     []zk.ACL
	open    *OpenACLError // why the connection creates no nodes, or nil; see InheritACL
	acls    atomic.Pointer[ACLs]
	follows bool         // FollowACLs has succeeded
	granted atomic.Int64 // session timeout in nanoseconds
	longest atomic.Int64 // that was asked for or granted, likewise
	stale   atomic.Bool  // see Stale

	tasks   *task.Group     // runs every call of the library
	closing context.Context //nolint:containedctx // ends with Close; for the library's dialer, which gets no context
	close   context.CancelFunc
	session atomic.Pointer[session] // the latest; before Open, one that refuses every call
	trouble atomic.Pointer[error]   // why the latest connection attempt failed, or nil

	mu     sync.Mutex
	closed bool

	telling     sync.Mutex
	subscribers map[*func(Event)]struct{}
}

// Zxid is the last transaction that the server has told of, in this session.
func (c *Conn) Zxid() int64 { return c.session.Load().zxid.Load() }

// Open returns a New connection that is open, and of which onEvent hears everything; see Subscribe.
// The caller must call Close.
func Open(cfg Config, onEvent func(Event)) (*Conn, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	c.Subscribe(onEvent)
	if err := c.Open(nil); err != nil {
		return nil, err
	}
	return c, nil
}

// New returns a connection that is not open yet. Before Open and after Close, calls return an error
// that wraps ErrClosed and Config.Closed.
func New(cfg Config) (*Conn, error) {
	servers, chroot, err := ParseServers(cfg.Servers)
	if err != nil {
		return nil, fmt.Errorf("servers %q: %w", cfg.Servers, err)
	}
	acl, err := ParseACL(cfg.ACL, cfg.Auth)
	if err != nil {
		return nil, fmt.Errorf("ACL: %w", err)
	}
	c := &Conn{
		cfg: cfg, names: servers, chroot: chroot, acl: acl,
		tasks: task.NewPool(context.Background()), subscribers: make(map[*func(Event)]struct{}),
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.granted.Store(int64(cfg.SessionTimeout))
	c.longest.Store(int64(cfg.SessionTimeout))
	none := &session{ready: make(chan struct{}), refused: c.closedError()}
	close(none.ready)
	c.session.Store(none)
	return c, nil
}

// Open starts a session and returns before it is connected; calls wait until it is. The random
// numbers come from source. It is called once, and Close must be called after it unless it fails.
func (c *Conn) Open(source *chance.Source) error {
	if err := c.begin(source); err != nil {
		c.close()
		return fmt.Errorf("connect: %w", err)
	}
	c.tasks.Go("zookeeper sessions", func(context.Context) error {
		for c.session.Load().wait() {
			if err := c.begin(source); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// Subscribe has hear called with each event from now on, until stop was called. A notification of a
// change comes before any reply that shows its transaction or a later one, unless only a GetW or
// ChildrenW of a former connection has set the watch. hear must not block, and not call the Conn.
func (c *Conn) Subscribe(hear func(Event)) (stop func()) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.subscribers[&hear] = struct{}{}
	return func() {
		c.telling.Lock()
		defer c.telling.Unlock()
		delete(c.subscribers, &hear)
	}
}

// tell tells the subscribers of an event. It is called in the order of the events.
func (c *Conn) tell(ev Event) {
	c.telling.Lock()
	defer c.telling.Unlock()
	for hear := range c.subscribers {
		(*hear)(ev)
	}
}

// WhileOpen returns a context that also ends with Close; then its cause is the error that calls
// return.
func (c *Conn) WhileOpen(ctx context.Context) (open context.Context, stop func()) {
	open, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(c.closing, func() { cancel(c.closedError()) })
	return open, func() {
		detach()
		cancel(nil)
	}
}

func (c *Conn) closedError() error {
	if c.cfg.Closed == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", c.cfg.Closed, ErrClosed)
}

// Close ends the session, and with it its ephemeral nodes, if the server is reachable. It waits at
// most one second for an unresponsive server and returns when all goroutines of the connection have
// ended. Pending calls return ErrLost, and later ones ErrClosed. Close is idempotent.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.tasks.Cancel(ErrLost)
	c.close()
	_ = c.tasks.Wait() // tasks report errors to their callers
}

// Servers is the connect string.
func (c *Conn) Servers() string { return c.cfg.Servers }

// SessionTimeout returns the timeout that the server granted, or the requested one before the first
// connection.
func (c *Conn) SessionTimeout() time.Duration { return time.Duration(c.granted.Load()) }

// LongestTimeout returns the longest session timeout that was asked for or granted. Servers may
// hold to an earlier connection's timeout when they count from the start again, as after a restart.
func (c *Conn) LongestTimeout() time.Duration { return time.Duration(c.longest.Load()) }

// SessionID returns the id of the session, or 0 without a session.
func (c *Conn) SessionID() int64 { return c.session.Load().zk.SessionID() }

// Stale reports whether one of the servers to which the connection was made had lost its quorum, so
// that an answer may have been of the past. It needs Config.ReadOnly.
func (c *Conn) Stale() bool { return c.stale.Load() }

// Trouble returns why the latest connection attempt, including its handshake, failed. If it is nil
// and calls are not answered, the server completes the handshake but does not answer requests.
func (c *Conn) Trouble() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// call runs f, one request of the library, on a separate goroutine and returns early if ctx ends.
// The request may still be applied then, but only in the session in which it was made.
func (c *Conn) call(ctx context.Context, op, path string, f func(s *session) error) error {
	s := c.session.Load()
	select {
	case <-s.ready: // the common case, and cheaper than the select below
	default:
		select {
		case <-s.ready:
		case <-ctx.Done():
		}
	}
	switch {
	case c.closing.Err() != nil:
		return c.closedError()
	case ctx.Err() != nil:
		return &OpError{Op: op, Path: path, Err: ctx.Err()}
	case s.refused != nil:
		return s.refused
	}
	if sent, counted := ctx.Value(sentKey{}).(*atomic.Int64); counted {
		sent.Add(1)
	}
	answer := make(chan error, 1)
	if !c.start(op, func() { answer <- f(s) }) {
		return c.closedError()
	}
	select {
	case err := <-answer:
		err = opError(op, path, err)
		if errors.Is(err, ErrUnclear) {
			c.pause(ctx) // callers ask again at once
		}
		if IsUnknown(err) && c.closing.Err() != nil {
			return fmt.Errorf("%w: %w", c.closedError(), err)
		}
		return err
	case <-ctx.Done():
		return &OpError{Op: op, Path: path, Err: ctx.Err()}
	}
}

// pause keeps a caller that asks again after an unclear answer from asking without end: a server
// that is overloaded gives such answers.
func (c *Conn) pause(ctx context.Context) {
	timer := time.NewTimer(min(c.SessionTimeout()/10, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// start runs f unless the connection is closed: Close waits for the tasks, so none may be added
// after it.
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
	if err := c.openAt(path); err != nil {
		return err
	}
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
	err := c.call(ctx, "create", full, func(s *session) error {
		_, err := s.zk.Create(full, nil, 0, c.aclAt(strings.TrimPrefix(full, c.chroot)))
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
	existsErr := c.call(ctx, "exists", full, func(s *session) (err error) {
		found, _, err = s.zk.Exists(full)
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

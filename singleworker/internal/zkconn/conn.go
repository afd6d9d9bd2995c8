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

// maxFrame bounds what is read from a server: its own limit for what it
// stores is 1 MB, a list of children may be longer.
const maxFrame = 8 << 20

// Config says where and how to connect.
type Config struct {
	Servers        string        // connect string, see ParseServers
	SessionTimeout time.Duration // asked for; see Conn.SessionTimeout
	Auth           string        // "user:password" for the digest scheme; "" for none
	ACL            string        // of the nodes created, see ParseACL
	TLS            *tls.Config   // nil: plain TCP
	Dial           DialFunc      // nil: net.Dialer
	Logger         *slog.Logger
}

// EventKind tells the kinds of events apart.
type EventKind int

// The kinds of events.
const (
	Connected    EventKind = iota // a session is there: a new one first and after Expired
	Disconnected                  // the connection broke, the session may live on
	Expired                       // the session is over, as the server said
	NodeChanged                   // a watched node changed, or its watch is gone
)

// Event is a change of the session or of a watched node.
type Event struct {
	Kind EventKind
	Path string // of the node; "" for the session's own
}

// Conn is a session. Safe for concurrent use.
type Conn struct {
	zk      *zk.Conn
	chroot  string
	acl     []zk.ACL
	granted atomic.Int64 // session timeout in nanoseconds
	onEvent func(Event)

	tasks   *task.Group     // every call of the library runs in one
	closing context.Context //nolint:containedctx // ends with Close: for the library's dialer, which has none
	close   context.CancelFunc
	ready   chan struct{}
	current atomic.Pointer[handshake] // the connection in use
	trouble atomic.Pointer[error]     // why the latest attempt to open one failed; nil when it did not
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

// Open starts a session and returns before it is connected; calls wait for
// that. onEvent is called in the order of the events and must not block.
// Whoever opens must Close.
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
			continue // the callback has them; this joins the library's loop
		}
		return nil
	})
	c.tasks.Go("zookeeper authentication", func(ctx context.Context) error {
		c.authenticate(ctx, cfg.Auth)
		return nil
	})
	return c, nil
}

// authenticate sends the credentials ahead of every other request; the
// library repeats them on each reconnect.
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

// Close ends the session, and with it its ephemeral nodes, when the server
// can be reached, and returns when nothing of the connection runs any more: a
// server that stays silent is waited for for a second. Calls under way end with ErrLost. Idempotent.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.tasks.Cancel(ErrLost)
	c.close()
	if conn := c.current.Load(); conn != nil && !conn.answered.Load() {
		c.hangUp() // there is no session to end, and the library would wait for one
	}
	c.zk.Close()
	c.hangUp()         // the server had its time to answer
	_ = c.tasks.Wait() // tasks report to their callers
}

// SessionTimeout is what the server granted; before the first connection,
// what was asked for.
func (c *Conn) SessionTimeout() time.Duration { return time.Duration(c.granted.Load()) }

// SessionID identifies the session; 0 when there is none.
func (c *Conn) SessionID() int64 { return c.zk.SessionID() }

// Trouble is why the latest attempt to open a connection, with its handshake, failed;
// nil when it did not: if calls are not answered, then by a server that greets.
func (c *Conn) Trouble() error {
	if err := c.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// event translates the library's events, in its goroutine.
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

// call runs f, one request of the library's, in a goroutine of its own, and
// returns early when ctx ends: the request may be applied all the same.
func (c *Conn) call(ctx context.Context, op, path string, f func() error) error {
	select {
	case <-c.ready: // nearly always, and cheaper than the choice below
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
		return opError(op, path, err)
	case <-ctx.Done():
		return &OpError{Op: op, Path: path, Err: ctx.Err()}
	}
}

// start runs f unless the connection is closed: after that nothing may be
// added to the tasks that Close waits for.
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

// EnsureRoot creates the chroot, when the connect string has one, and path
// below it, each node of them with the connection's ACL.
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

// ensure creates a node, by its full path, unless it is there.
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
	// Whether we may create is asked before whether there is anything to do.
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

// logAdapter passes the library's messages on; they say how a connection
// failed, which is worth knowing when one is being looked for.
type logAdapter struct{ log *slog.Logger }

func (l logAdapter) Printf(format string, args ...any) {
	l.log.Debug("zookeeper client: " + fmt.Sprintf(format, args...))
}

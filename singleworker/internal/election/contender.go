package election

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// The reasons why a term ends: the cause of Serve's context. Package latch exports these errors, so
// their texts carry its name.
var (
	// ErrSuspended is the cause when the connection is lost. The node is kept, and leads again if the
	// session is still alive after the reconnect.
	ErrSuspended = errors.New("latch: connection to ZooKeeper lost")
	// ErrExpired is the cause when the session has expired.
	ErrExpired = errors.New("latch: session expired")
	// ErrLapsed is the cause when no proof of life was acknowledged in time, or the process was
	// suspended.
	ErrLapsed = errors.New("latch: leadership not confirmed in time")
	// ErrDeposed is the cause when the node is gone or no longer the first although the session is
	// alive: someone deleted it.
	ErrDeposed = errors.New("latch: the leader's node was deleted")
	// ErrResigned is the cause when Serve has returned or called Resign.
	ErrResigned = errors.New("latch: leadership resigned")
	// ErrStopped is the cause when the context of Run has ended. Await returns it, too.
	ErrStopped = errors.New("latch: stopped")
)

// Errors returned by Run.
var (
	// ErrDenied is returned when ZooKeeper's ACLs refuse the contender's credentials.
	ErrDenied = zkconn.ErrDenied
	// ErrNotReleased is returned when ZooKeeper was unreachable while the contender left. Its node
	// is removed when the session expires.
	ErrNotReleased = errors.New("latch: ZooKeeper unreachable while stopping; the next contender leads when the session expires")
)

// A lease lasts 0.75 session timeouts and is renewed four times in that time.
const (
	leaseNum, leaseDen = 3, 4
	renewals           = 4
)

// Conn is the part of *zkconn.Conn that a contender needs.
type Conn interface {
	SessionID() int64
	SessionTimeout() time.Duration
	EnsureRoot(ctx context.Context, path string) error
	CheckClosed(ctx context.Context, paths ...string) error
	Children(ctx context.Context, path string) ([]string, zkconn.Stat, error)
	Get(ctx context.Context, path string) ([]byte, zkconn.Stat, error)
	GetW(ctx context.Context, path string) ([]byte, zkconn.Stat, error)
	CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error)
	Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error)
}

// Config configures a contender.
type Config struct {
	Path  string // absolute path of the election; created if missing
	ID    string // human-readable name of the participant
	Clock *leases.Clock
	// Serve is called for each term, on a separate goroutine. Its context ends with the term, with
	// one of the causes above. Serve must then return: until it does, the contender keeps its place
	// and starts no other term. If Serve returns earlier, the contender resigns and moves to the end
	// of the queue. If Serve panics or calls runtime.Goexit, Run returns a *task.PanicError.
	Serve  func(ctx context.Context, term Term)
	Chance *chance.Source
	Logger *slog.Logger
}

// Term is a period of leadership.
type Term struct {
	// Token increases with every change of leader on a path; see the package comment.
	Token int64
	// Node is the path of the leader's node. A transaction that checks that it exists is refused
	// once another contender leads.
	Node string
}

// Contender takes part in one election. It is safe for concurrent use.
type Contender struct {
	cfg    Config
	prefix string // of its nodes' names

	changed chan struct{} // a watched node changed; signals merge
	renewed chan struct{} // there is a deadline to watch; signals merge

	mu      sync.Mutex
	turned  chan struct{} // closed and replaced whenever a field below changes
	session *session      // nil while disconnected
	tenure  *tenure       // the latest; nil before the first
	stopped bool          // no further term

	// Owned by the loop.
	tasks     *task.Group
	calls     context.Context //nolint:containedctx // for writes, whose outcome must be known even after Run's context ends
	conn      Conn
	entered   bool            // a node has been created before, so the configuration is valid
	placed    string          // name of our latest node, or ""
	uncertain bool            // a create request went unanswered: the node may exist
	doomed    map[string]bool // names of our nodes that must be deleted
}

// session is one connection, from connect to disconnect.
type session struct {
	ctx context.Context //nolint:containedctx // the connection's lifetime
	end context.CancelCauseFunc
}

// New returns a contender. It does nothing until Run is called.
func New(cfg Config) *Contender {
	return &Contender{
		cfg: cfg, prefix: namePrefix(cfg.Chance.ID("contender")),
		changed: make(chan struct{}, 1), renewed: make(chan struct{}, 1), turned: make(chan struct{}),
		doomed: make(map[string]bool),
	}
}

// OnEvent must be called for every event of the connection, in order, starting before the
// connection has a session. It does not block. If the event ends leadership, Held is false when
// OnEvent returns.
func (c *Contender) OnEvent(ev zkconn.Event) {
	switch ev.Kind {
	case zkconn.Connected:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disconnect(ErrSuspended)
		ctx, end := context.WithCancelCause(context.Background())
		c.session = &session{ctx, end}
		c.turn()
	case zkconn.Disconnected:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disconnect(ErrSuspended)
	case zkconn.Expired:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disconnect(ErrExpired)
	case zkconn.NodeChanged:
		if strings.HasPrefix(ev.Path, c.cfg.Path+"/") {
			signal(c.changed)
		}
	}
}

// disconnect ends the term and the session. The caller holds mu.
func (c *Contender) disconnect(cause error) {
	c.end(cause)
	if c.session != nil {
		c.session.end(cause)
		c.session = nil
		c.turn()
	}
}

// Held reports whether this contender leads now, by its clock, and its term.
func (c *Contender) Held() (Term, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open() && c.cfg.Clock.Now().Elapsed < c.tenure.until {
		return c.tenure.term, true
	}
	return Term{}, false
}

// Await waits until this contender leads. It returns ErrStopped when the contender has stopped, or
// ctx's cause.
func (c *Contender) Await(ctx context.Context) (Term, error) {
	for {
		c.mu.Lock()
		turned, stopped := c.turned, c.stopped
		c.mu.Unlock()
		if term, ok := c.Held(); ok {
			return term, nil
		}
		if stopped {
			return Term{}, ErrStopped
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return Term{}, context.Cause(ctx)
		}
	}
}

// Run contends until ctx ends, then leaves the queue. It must be called only once.
func (c *Contender) Run(ctx context.Context, conn Conn) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	c.conn, c.calls, c.tasks = conn, calls, task.NewGroup(ctx)
	c.tasks.Go("election deadline", func(ctx context.Context) error {
		defer time.AfterFunc(leaveTimeout, giveUp)
		return c.watch(ctx)
	})
	c.tasks.Go("election", func(ctx context.Context) error {
		err := c.contend(ctx)
		c.stop()
		return errors.Join(err, c.leave(ctx))
	})
	return c.tasks.Wait()
}

// contend campaigns over one connection after the other until ctx ends.
func (c *Contender) contend(ctx context.Context) error {
	for ctx.Err() == nil {
		c.mu.Lock()
		s, turned := c.session, c.turned
		c.mu.Unlock()
		if s == nil {
			select {
			case <-turned:
			case <-ctx.Done():
			}
			continue
		}
		if err := c.campaign(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// turn wakes everyone who waits for a change of state. The caller holds mu.
func (c *Contender) turn() {
	close(c.turned)
	c.turned = make(chan struct{})
}

func signal(ready chan<- struct{}) {
	select {
	case ready <- struct{}{}:
	default:
	}
}

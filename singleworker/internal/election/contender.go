package election

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Why a term ended: the cause of the context that Serve was given.
var (
	// ErrSuspended: the connection broke. The node is kept, and leads again when
	// the session is found alive.
	ErrSuspended = errors.New("connection to ZooKeeper suspended")
	// ErrExpired: the session is over.
	ErrExpired = errors.New("ZooKeeper session expired")
	// ErrLapsed: no proof of life was acknowledged in time, or the process
	// stood still.
	ErrLapsed = errors.New("leadership was not confirmed in time")
	// ErrDeposed: the contender's node is gone, or not the first any more,
	// though its session lives: somebody has deleted it.
	ErrDeposed = errors.New("node of the leader was deleted")
	// ErrResigned: Serve returned by itself, or called Resign.
	ErrResigned = errors.New("leadership given up")
	// ErrStopped: the context of Run has ended. Await returns it, too.
	ErrStopped = errors.New("latch stopped")
)

// What Run returns, besides nil.
var (
	// ErrDenied: ZooKeeper's ACLs refuse the contender's credentials.
	ErrDenied = zkconn.ErrDenied
	// ErrNotReleased: ZooKeeper was away while the contender left. Its node goes
	// when its session does.
	ErrNotReleased = errors.New("ZooKeeper was away; the place is given up when the session ends")
)

// A lease lasts 0.75 sessions, and is renewed four times in that time.
const (
	leaseNum, leaseDen = 3, 4
	renewals           = 4
)

// Conn is what a contender needs of a connection; *zkconn.Conn has it.
type Conn interface {
	SessionID() int64
	SessionTimeout() time.Duration
	EnsureRoot(ctx context.Context, path string) error
	Children(ctx context.Context, path string) ([]string, zkconn.Stat, error)
	Get(ctx context.Context, path string) ([]byte, zkconn.Stat, error)
	GetW(ctx context.Context, path string) ([]byte, zkconn.Stat, error)
	CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error)
	Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error)
}

// Config is what a contender is told.
type Config struct {
	Path  string // of the election, absolute; created when it is absent
	ID    string // the participant's, for people
	Clock *leases.Clock
	// Serve is called for each term, on a goroutine of its own. Its context ends
	// with the term, with one of the causes above; it must return then, for until
	// it does the place is not given up and no further term begins. If it returns
	// sooner, the contender resigns, and queues again behind all others. A panic, or
	// runtime.Goexit, ends Run, with a *task.PanicError.
	Serve  func(ctx context.Context, term Term)
	Logger *slog.Logger
}

// Term is a time of leadership.
type Term struct {
	// Token grows with every change of leader of a path; see the package comment.
	Token int64
	// Node is the path of the node that leads. A transaction that checks that it
	// exists is refused when the term is over elsewhere.
	Node string
}

// Contender takes part in one election. Safe for concurrent use.
type Contender struct {
	cfg    Config
	prefix string // of the names of its nodes

	changed chan struct{} // merges: a watched node changed
	renewed chan struct{} // merges: there is a deadline to watch

	mu      sync.Mutex
	turned  chan struct{} // closed and replaced at each change of what follows
	session *session      // nil while there is no connection
	tenure  *tenure       // the latest; nil before the first
	stopped bool          // no further term

	// Of the loop alone.
	tasks     *task.Group
	calls     context.Context //nolint:containedctx // of changes, whose outcome must be known also when Run is to end
	conn      Conn
	entered   bool            // a node was created once: the configuration is right
	placed    string          // the name of the latest node that was ours, or ""
	uncertain bool            // a creation was not answered: the node may be there
	doomed    map[string]bool // names of nodes of ours that are to be deleted
}

// session is one connection, from its beginning to its end.
type session struct {
	ctx context.Context //nolint:containedctx // it is the connection's lifetime
	end context.CancelCauseFunc
}

// New returns a contender that does nothing yet.
func New(cfg Config) *Contender {
	return &Contender{
		cfg: cfg, prefix: namePrefix(uuid.NewString()),
		changed: make(chan struct{}, 1), renewed: make(chan struct{}, 1), turned: make(chan struct{}),
		doomed: make(map[string]bool),
	}
}

// OnEvent must be told every event of the connection, in their order, from before it
// has a session. It does not block. What ends leadership has ended it when
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

// disconnect is called with mu held.
func (c *Contender) disconnect(cause error) {
	c.end(cause)
	if c.session != nil {
		c.session.end(cause)
		c.session = nil
		c.turn()
	}
}

// Held asks the clock now whether this contender leads.
func (c *Contender) Held() (Term, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open() && c.cfg.Clock.Now().Elapsed < c.tenure.until {
		return c.tenure.term, true
	}
	return Term{}, false
}

// Await returns when this contender leads, with ErrStopped when it never will, or with
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

// Run contends until ctx ends, and gives up the place then. To be called once.
func (c *Contender) Run(ctx context.Context, conn Conn) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	c.conn, c.calls, c.tasks = conn, calls, task.NewGroup(ctx)
	c.tasks.Go("election deadline", func(ctx context.Context) error {
		defer time.AfterFunc(leavePatience, giveUp)
		return c.watch(ctx)
	})
	c.tasks.Go("election", func(ctx context.Context) error {
		err := c.contend(ctx)
		c.stop()
		return errors.Join(err, c.leave(ctx))
	})
	return c.tasks.Wait()
}

// contend goes from one connection to the next, until ctx ends.
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

// turn is called with mu held.
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

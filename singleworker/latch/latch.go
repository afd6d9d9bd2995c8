package latch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Why a term ended: what Hooks.OnLost is told, and the cause of the context that Lead
// gives its function.
var (
	// ErrSuspended: the connection to ZooKeeper broke. The contender keeps its place
	// in the queue, and leads again when its session turns out to live.
	ErrSuspended = election.ErrSuspended
	// ErrExpired: the session is over, and the place in the queue with it.
	ErrExpired = election.ErrExpired
	// ErrLapsed: ZooKeeper has not confirmed the leadership in time, or the process,
	// or its machine, stood still for so long.
	ErrLapsed = election.ErrLapsed
	// ErrDeposed: the contender's node was deleted by somebody.
	ErrDeposed = election.ErrDeposed
	// ErrResigned: the function given to Lead has returned by itself.
	ErrResigned = election.ErrResigned
	// ErrStopped: the context of Run or Lead has ended. Await returns it, too.
	ErrStopped = election.ErrStopped
)

// What Run and Lead return, besides nil.
var (
	// ErrAccessDenied: ZooKeeper's ACLs refuse Config.Auth.
	ErrAccessDenied = election.ErrDenied
	// ErrNotReleased: ZooKeeper was away when the contender stopped. Another one
	// leads when its session ends.
	ErrNotReleased = election.ErrNotReleased
	// ErrStarted: Run or Lead was called before.
	ErrStarted = errors.New("latch: it has been run")
)

// What the methods that ask return, besides nil.
var (
	// ErrNotLeader: another contender leads, or nobody. See IsLeader.
	ErrNotLeader = errors.New("latch: not the leader")
	// ErrNotRunning: there is no connection, for neither Run nor Lead is running.
	ErrNotRunning = errors.New("latch: not running")
	// ErrNoLeader: nobody contends. See Leader.
	ErrNoLeader = errors.New("latch: nobody contends")
)

// Term is a time of leadership of one contender.
type Term struct {
	// Token is the term's fencing token: no later leader of the path has one as low.
	// It is the czxid of Node, and compares with every other zxid of the
	// ensemble, and with the tokens of Java's contenders. When a leader regains
	// its own place after ErrSuspended or ErrLapsed, nobody has led between, and
	// the token is the same.
	Token int64
	// Node is the path of the node that leads, without the chroot. A transaction of
	// yours that checks its existence is refused when another leads.
	Node string
}

// Participant is a contender, this one or another.
type Participant struct {
	ID    string // its Config.ID; in Java, the id given to LeaderLatch, often empty
	Node  string // its node's path, without the chroot
	Token int64  // of the term that it leads, or will
}

// Latch is one contender for one leadership. Safe for concurrent use.
type Latch struct {
	cfg       Config
	contender *election.Contender
	serve     func(ctx context.Context) error // nil, or what Lead was given; set before the contender runs

	mu      sync.Mutex
	started bool
	conn    *zkconn.Conn // while it runs
	fail    context.CancelCauseFunc
}

// New returns a latch that contends when Run or Lead is called. It fails with a
// *ConfigError.
func New(cfg Config) (*Latch, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Latch{cfg: cfg}
	l.contender = election.New(election.Config{
		Path: cfg.Path, ID: cfg.ID, Clock: leases.NewClock(), Serve: l.term, Logger: cfg.Logger,
	})
	return l, nil
}

// Run contends until ctx ends, and gives up the place then. It returns when nothing of the
// latch runs any more and, unless with ErrNotReleased, the next contender can lead. If
// the connection or the session is lost, it contends again as soon as it can. To be called
// once, and not beside Lead.
func (l *Latch) Run(ctx context.Context) error { return l.run(ctx, nil) }

// Lead contends as Run does, and calls f whenever this contender leads, in terms that do
// not overlap. The context of f ends when the term does, with the reason as its cause,
// and carries the Term, see [TermFrom]; f must return then, for the place
// is not given up before it has, nor does f lead again.
//
// If f returns sooner, the contender gives up the place. If f returned nil, it queues
// again, behind all others, without a pause. If f returned an error, Lead returns that. When ctx ends, Lead
// returns as Run does, when f has returned; what f returns after the end of its term is
// not reported.
func (l *Latch) Lead(ctx context.Context, f func(ctx context.Context) error) error {
	return l.run(ctx, f)
}

func (l *Latch) run(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	conn, err := l.start(f, fail)
	if err != nil {
		return err
	}
	err = l.contender.Run(ctx, conn)
	l.mu.Lock()
	l.conn = nil
	l.mu.Unlock()
	conn.Close()
	if failed := (*failure)(nil); errors.As(context.Cause(ctx), &failed) {
		return errors.Join(failed.error, err)
	}
	return err
}

// start opens the connection, once.
func (l *Latch) start(f func(ctx context.Context) error, fail context.CancelCauseFunc) (*zkconn.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		return nil, ErrStarted
	}
	l.started, l.serve, l.fail = true, f, fail
	conn, err := zkconn.Open(zkconn.Config{
		Servers: l.cfg.Servers, SessionTimeout: l.cfg.SessionTimeout, Auth: l.cfg.Auth,
		ACL: l.cfg.ACL, TLS: l.cfg.TLS, Dial: l.cfg.Dial, Logger: l.cfg.Logger,
	}, l.contender.OnEvent)
	l.conn = conn
	return conn, err
}

// failure is an error of Lead's function that ends Lead.
type failure struct{ error }

type termKey struct{}

// TermFrom is the term in which Lead has called a function, from the context it was given.
func TermFrom(ctx context.Context) (Term, bool) {
	term, ok := ctx.Value(termKey{}).(Term)
	return term, ok
}

// term is called by the contender for each term, on a goroutine of its own.
func (l *Latch) term(ctx context.Context, t election.Term) {
	term := Term(t)
	defer func() { // also after a panic
		l.contender.Resign()
		if l.cfg.Hooks.OnLost != nil {
			l.cfg.Hooks.OnLost(term, context.Cause(ctx))
		}
	}()
	if l.cfg.Hooks.OnGained != nil {
		l.cfg.Hooks.OnGained(term)
	}
	if l.serve == nil {
		<-ctx.Done()
		return
	}
	err := l.serve(context.WithValue(ctx, termKey{}, term))
	inTime := ctx.Err() == nil
	l.contender.Resign()
	if err != nil && inTime {
		l.fail(&failure{err})
	}
}

// Held reports whether this contender leads now: it asks the clock, not ZooKeeper, so it may
// be called as often as one likes.
func (l *Latch) Held() (Term, bool) {
	term, ok := l.contender.Held()
	return Term(term), ok
}

// Await returns when this contender leads. It fails with ErrStopped when it will lead no
// more, or with ctx's cause. Before Run or Lead is called it waits for that. OnLost, and a
// function of Lead's whose context has ended, must not call it with a context that does
// not end: the term that it waits for cannot begin before they have returned.
func (l *Latch) Await(ctx context.Context) (Term, error) {
	term, err := l.contender.Await(ctx)
	return Term(term), err
}

// IsLeader returns nil if this contender leads now, else ErrNotLeader: it makes a Latch an
// Elector of github.com/go-co-op/gocron/v2, whose scheduler then starts a
// job on the leader only.
//
// gocron asks once, before a job starts, and does not end a job whose process leads no
// more. Jobs for which that matters ask Held as they go on.
func (l *Latch) IsLeader(context.Context) error {
	if _, held := l.contender.Held(); !held {
		return ErrNotLeader
	}
	return nil
}

// Participants lists the contenders: the leader first, and then who will lead, in this order.
// It asks a ZooKeeper server, which may lag behind, and tries until ctx ends.
// It fails with ErrNotRunning, ErrAccessDenied, or ctx's cause.
func (l *Latch) Participants(ctx context.Context) ([]Participant, error) {
	retry := task.Backoff{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		l.mu.Lock()
		conn := l.conn
		l.mu.Unlock()
		if conn == nil {
			return nil, ErrNotRunning
		}
		list, err := election.Participants(ctx, conn, l.cfg.Path)
		if !zkconn.IsUnknown(err) {
			return participants(list), err
		}
		if waitErr := retry.Wait(ctx); waitErr != nil {
			err = fmt.Errorf("%w; last try: %w", waitErr, err)
			if trouble := conn.Trouble(); trouble != nil {
				err = fmt.Errorf("%w; the latest attempt to connect: %w", err, trouble)
			}
			return nil, err
		}
	}
}

func participants(list []election.Participant) []Participant {
	all := make([]Participant, len(list))
	for i, p := range list {
		all[i] = Participant(p)
	}
	return all
}

// Leader is the first of Participants, which fails also with ErrNoLeader. For a moment
// after a leader has died, or lost its connection, it may be one that does
// not know of its leadership, or does not hold it any more.
func (l *Latch) Leader(ctx context.Context) (Participant, error) {
	list, err := l.Participants(ctx)
	if err != nil {
		return Participant{}, err
	}
	if len(list) == 0 {
		return Participant{}, ErrNoLeader
	}
	return list[0], nil
}

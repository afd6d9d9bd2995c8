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

// The reasons why a term ends: passed to Hooks.OnLost, and the cause of the context that Lead
// passes to its function.
var (
	// ErrSuspended is the cause when the connection to ZooKeeper is lost. The contender keeps its
	// place in the queue and leads again if its session is still alive after it reconnects.
	ErrSuspended = election.ErrSuspended
	// ErrExpired is the cause when the session has expired. The place in the queue is lost.
	ErrExpired = election.ErrExpired
	// ErrLapsed is the cause when ZooKeeper has not confirmed the leadership in time, or when the
	// process or its machine was suspended for that long. A machine whose clock is set ahead cannot
	// tell that from a suspension. It asks ZooKeeper: the term ends unless the answer comes within 250
	// ms.
	ErrLapsed = election.ErrLapsed
	// ErrDeposed is the cause when someone else deleted the contender's node.
	ErrDeposed = election.ErrDeposed
	// ErrResigned is the cause when the function passed to Lead has returned.
	ErrResigned = election.ErrResigned
	// ErrStopped is the cause when the context of Run or Lead has ended. Await returns it, too.
	ErrStopped = election.ErrStopped
)

// Errors returned by Run and Lead.
var (
	// ErrAccessDenied is returned when ZooKeeper's ACLs refuse Config.Auth.
	ErrAccessDenied = election.ErrDenied
	// ErrOpenACL is returned when Config.Auth or Config.ACL is set, and anybody who reaches ZooKeeper
	// may change the node at Config.Path nevertheless. The error says how to mend that.
	ErrOpenACL = zkconn.ErrOpenACL
	// ErrNotReleased is returned when ZooKeeper was unreachable while the contender stopped. The
	// next contender leads when the session expires.
	ErrNotReleased = election.ErrNotReleased
	// ErrStarted is returned when Run or Lead has been called before.
	ErrStarted = errors.New("latch: already started; use a new Latch")
)

// Errors returned by the methods that query the election.
var (
	// ErrNotLeader is returned by IsLeader when this contender is not the leader.
	ErrNotLeader = errors.New("latch: not the leader")
	// ErrNotRunning is returned when there is no connection because neither Run nor Lead is running.
	ErrNotRunning = errors.New("latch: not running; call Run or Lead first")
	// ErrNoLeader is returned by Leader when nobody is contending.
	ErrNoLeader = errors.New("latch: no leader: nobody is contending")
)

// Term is a period in which one contender leads.
type Term struct {
	// Token is the term's fencing token: strictly greater than every earlier leader's token. It is
	// the czxid of Node, so it compares with every zxid of the ensemble and with the tokens of
	// Java contenders. A leader that regains leadership with the same node, after ErrSuspended or
	// ErrLapsed, has the same token: nobody led in between.
	Token int64
	// Node is the path of the leader's node, without the chroot. A transaction that checks that it
	// exists is refused once another contender leads.
	Node string
}

// Participant is a contender: this one or another.
type Participant struct {
	ID    string // its Config.ID; in Java, the id given to LeaderLatch, often empty
	Node  string // path of its node, without the chroot
	Token int64  // of the term that it leads or will lead
}

// Latch is one contender for one leadership. It is safe for concurrent use.
type Latch struct {
	cfg       Config
	contender *election.Contender
	serve     func(ctx context.Context) error // Lead's function, or nil; set before the contender runs

	mu      sync.Mutex
	started bool
	conn    *zkconn.Conn // while it runs
	fail    context.CancelCauseFunc
}

// New checks cfg and returns a Latch. It starts nothing; call Run or Lead to contend. The error is
// an *invalid.FieldError.
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

// Run contends for leadership until ctx ends, then leaves the queue. When it returns, all
// goroutines of the latch have ended and, unless the error is ErrNotReleased, the next contender
// can lead. After a lost connection or an expired session it contends again as soon as possible.
// A Latch runs once: call either Run or Lead.
func (l *Latch) Run(ctx context.Context) error { return l.run(ctx, nil) }

// Lead contends like Run and calls f whenever this contender becomes the leader. Calls never
// overlap. The context of f carries the Term (see [TermFrom]) and ends with the term, with the
// reason as its cause. f must then return: until it does, the contender keeps its place and f is
// not called again.
//
// If f returns nil before its term ends, the contender moves to the end of the queue at once. If f
// returns an error before its term ends, Lead returns that error. Errors that f returns later are
// ignored. When ctx ends, Lead waits for f and returns like Run.
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
	err = conn.Prepare(ctx)
	switch {
	case err == nil, ctx.Err() != nil:
		err = l.contender.Run(ctx, conn)
	case errors.Is(err, zkconn.ErrDenied):
		err = fmt.Errorf("%w: %w", ErrAccessDenied, err)
	}
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

// failure is an error of Lead's function, which ends Lead.
type failure struct{ error }

type termKey struct{}

// TermFrom returns the term from a context that Lead passed to its function.
func TermFrom(ctx context.Context) (Term, bool) {
	term, ok := ctx.Value(termKey{}).(Term)
	return term, ok
}

// term is called by the contender for each term, on a separate goroutine.
func (l *Latch) term(ctx context.Context, t election.Term) {
	term := Term(t)
	defer func() { // runs after a panic, too
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

// Held reports whether this contender leads now, and its term. It reads the clock and sends no
// request, so it is cheap. When the machine's clock has leapt ahead, it is false until ZooKeeper
// has confirmed the leadership, although the term may continue.
func (l *Latch) Held() (Term, bool) {
	term, ok := l.contender.Held()
	return Term(term), ok
}

// Await waits until this contender leads and returns its term. It returns ErrStopped when the
// latch has stopped, or ctx's cause. It may be called before Run or Lead.
//
// OnLost, and Lead's function after its context has ended, must not call Await without a timeout:
// the next term cannot begin before they return.
func (l *Latch) Await(ctx context.Context) (Term, error) {
	term, err := l.contender.Await(ctx)
	return Term(term), err
}

// IsLeader returns nil if this contender leads now, else ErrNotLeader. It makes a Latch an Elector
// for github.com/go-co-op/gocron/v2, whose scheduler then starts jobs on the leader only.
//
// gocron checks once, before a job starts, and does not cancel running jobs when leadership is
// lost. Jobs for which that matters should call Held while they run.
func (l *Latch) IsLeader(context.Context) error {
	if _, held := l.contender.Held(); !held {
		return ErrNotLeader
	}
	return nil
}

// Participants lists the contenders in the order in which they lead, the leader first. The
// ZooKeeper server that answers may lag behind the others. While there is no connection,
// Participants retries until ctx ends. It returns ErrNotRunning, ErrAccessDenied or ctx's cause.
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
			err = fmt.Errorf("%w; last attempt: %w", waitErr, err)
			if trouble := conn.Trouble(); trouble != nil {
				err = fmt.Errorf("%w; last connection attempt: %w", err, trouble)
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

// Leader returns the first of Participants, or ErrNoLeader. For a moment after a leader has died or
// lost its connection, the result may no longer be leading, or may not know yet that it leads.
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

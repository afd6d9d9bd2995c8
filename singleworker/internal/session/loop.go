package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrEnded is the error of calls that need the loop after Run has returned.
var ErrEnded = errors.New("no longer part of the group")

// Config is all that a Loop needs. Every field but Chance must be set.
type Config struct {
	Conn       *zkconn.Conn // which the loop opens, and closes
	ServerType string
	SyncPeriod time.Duration // at most; see Loop.SyncPeriod
	Clock      *leases.Clock
	Chance     *chance.Source
	Logger     *slog.Logger
}

// Handler has the calls of a Loop to its owner. All methods are called on the loop's goroutine.
type Handler interface {
	// Event handles a session or watch event, in the order of their arrival.
	Event(ev zkconn.Event)
	// Handle handles a notice that a room has told.
	Handle(n Notice)
	// Turn is called at each wake-up, after the posted closures: do all work that is due.
	Turn()
	// Settled is called when everything that a turn led to is done: the loop ends when it returns
	// true, or an error.
	Settled() (done bool, err error)
	// Ended is called when the loop ends, also by a panic. The connection is closed after it.
	Ended()
	// Next is when to wake up although nothing was posted, on Mono.
	Next() time.Duration
}

// Notice is news of one room for others that it does not know. Each room defines its own.
type Notice any

// Loop owns the connection and runs everything else of an instance on one goroutine. Post may be
// called by anybody; the other methods, unless they say otherwise, by that goroutine alone.
type Loop struct {
	// Set once by New, read by anybody.
	Tree  zkrec.Tree
	Clock *leases.Clock
	Log   *slog.Logger
	// Chance is where the instance's random numbers come from.
	Chance *chance.Source
	// Server is ZooKeeper's clock; set by New.
	Server *ServerClock
	// Conn is open while the loop runs.
	Conn *zkconn.Conn

	cfg     Config
	handler Handler
	box     *task.Mailbox
	ended   chan struct{} // closed when the loop has ended
	tasks   *task.Group

	turn   []func()        // what the current turn has yet to do
	silent map[string]bool // by parent: signals that tell nothing, which was logged
	lanes  lanes
	reader
	status
}

// status is the state of the loop's session.
type status struct {
	connected bool
	joined    bool // the instance's ephemeral node exists
	// connection counts the connections. The watches that Read sets end with them.
	connection int
	attempt    int           // counts attempts to join: what was asked in an older one is void
	lostAt     time.Duration // Mono: when connected or joined became false
	warnedAt   time.Duration // Mono: when the log last said that there is no connection
}

// New returns a loop; Run starts it.
func New(cfg Config) *Loop {
	l := &Loop{
		Tree: zkrec.NewTree(cfg.ServerType), Clock: cfg.Clock, Log: cfg.Logger, Chance: cfg.Chance, Conn: cfg.Conn,
		cfg: cfg, box: task.NewMailbox(), ended: make(chan struct{}), silent: make(map[string]bool),
	}
	l.loop, l.Server = l, &ServerClock{loop: l}
	return l
}

// Run connects and runs the loop until h ends it, or ctx does; it then returns the cause of ctx.
func (l *Loop) Run(ctx context.Context, h Handler) error {
	l.handler = h
	l.Conn.Subscribe(l.onEvent)
	if err := l.Conn.Open(l.Chance); err != nil {
		l.end()
		return err
	}
	l.tasks = task.NewPool(ctx)
	l.tasks.Go("coordinator", func(ctx context.Context) error {
		defer l.end()
		defer h.Ended()
		defer l.tasks.Cancel(nil) // pending requests have nobody to report to
		return l.run(ctx)
	})
	err := l.tasks.Wait()
	l.Conn.Close()
	return err
}

// turnLimit is when a turn ends although more is posted: under overload, heartbeats that are due
// must not wait for thousands of answers.
const turnLimit = 5 * time.Millisecond

func (l *Loop) run(ctx context.Context) error {
	l.lostAt = l.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.box.Ready():
		case <-timer.C:
		}
		l.Chance.Await(chance.Session)
		l.box.RunFor(turnLimit)
		l.warnIfUnreachable()
		l.handler.Turn()
		l.finishTurn()
		if done, err := l.handler.Settled(); done || err != nil {
			return err
		}
		l.finishTurn()
		timer.Reset(max(0, min(l.handler.Next(), l.lanes.next())-l.Now()))
	}
}

// finishTurn runs the closures that the turn has deferred, and sends its writes and reads.
func (l *Loop) finishTurn() {
	l.drain()
	l.lanes.flush(l)
	l.send()
}

// Post runs f on the loop. It never blocks and may be called by anybody.
func (l *Loop) Post(f func()) { l.PostOr(f, func() {}) }

// PostOr is Post; ended is called, by anybody, if the loop ends before f has begun, or has ended.
func (l *Loop) PostOr(f, ended func()) {
	l.box.PostOr(func() {
		f()
		l.drain()
	}, ended)
}

// end drops the closures that are posted to a loop that nobody runs any more.
func (l *Loop) end() {
	close(l.ended)
	l.box.Close()
}

// Defer runs f later in this turn, after everything deferred before it. It is how a room carries
// out a list of actions in order although one of them leads to more.
func (l *Loop) Defer(f func()) { l.turn = append(l.turn, f) }

// Tell has the handler handle n later in this turn: how a room speaks to those above it.
func (l *Loop) Tell(n Notice) { l.Defer(func() { l.handler.Handle(n) }) }

func (l *Loop) drain() {
	for len(l.turn) > 0 {
		f := l.turn[0]
		l.turn[0] = nil // for the garbage collector
		l.turn = l.turn[1:]
		f()
	}
	l.turn = nil
}

// Async runs request beside the loop and posts the closure that it returns.
func (l *Loop) Async(name string, request func(ctx context.Context) (then func())) {
	l.tasks.Go(name, func(ctx context.Context) error {
		l.Post(request(ctx))
		return nil
	})
}

// Go runs f beside the loop until it returns. Its error ends the loop.
func (l *Loop) Go(name string, f func(ctx context.Context) error) { l.tasks.Go(name, f) }

// Ended is closed when the loop has ended.
func (l *Loop) Ended() <-chan struct{} { return l.ended }

// Now is the monotonic time.
func (l *Loop) Now() time.Duration { return l.Clock.Now().Mono }

// SyncPeriod is how often an instance polls in addition to watches. It is at most the session
// timeout, which the server may have granted shorter than requested, so that a hung owner is
// detected no later than a dead one. It may be called by anybody.
func (l *Loop) SyncPeriod() time.Duration { return min(l.cfg.SyncPeriod, l.Conn.SessionTimeout()) }

// WaitToAskAgain waits for a sync period, beside the loop: after an error that no reconnect will
// mend, such as a node that may not be read, so that the loop does not ask without a pause.
func (l *Loop) WaitToAskAgain(ctx context.Context) { Wait(ctx, l.SyncPeriod()) }

// Wait waits for so long, or until ctx is done.
func Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// syncsPerLook is how many sync periods pass before something is read again of which no watch has
// told. Watches tell of every change for as long as the session lasts.
const syncsPerLook = 60

// NextLook is, on Mono, when to read something again that was read just now.
func (l *Loop) NextLook() time.Duration {
	return l.Now() + l.Chance.Jitter("look")(syncsPerLook*l.SyncPeriod())
}

// Connected reports whether a server is connected.
func (l *Loop) Connected() bool { return l.connected }

// Joined reports whether this instance is part of the group: only then may anything be written,
// except by joining itself.
func (l *Loop) Joined() bool { return l.joined }

// SetJoined notes that the instance's ephemeral node exists, or no longer does.
func (l *Loop) SetJoined(joined bool) {
	if l.joined && !joined {
		l.lostAt = l.Now()
	}
	l.joined = joined
}

// Attempt numbers the connections. A room that reads something compares it with the number at the
// time of asking.
func (l *Loop) Attempt() int { return l.attempt }

// BeginAttempt begins another attempt to join, in the same connection.
func (l *Loop) BeginAttempt() int {
	l.attempt++
	return l.attempt
}

// LostAt is when the instance last ceased to be connected or joined, on Mono.
func (l *Loop) LostAt() time.Duration { return l.lostAt }

// SessionID is the session's id as ZooKeeper's own log writes it.
func (l *Loop) SessionID() string { return fmt.Sprintf("0x%x", l.Conn.SessionID()) }

// onEvent queues session and watch events, in their order.
func (l *Loop) onEvent(ev zkconn.Event) {
	l.Post(func() {
		switch ev.Kind {
		case zkconn.Connected:
			l.connected = true
			l.connection++
		case zkconn.Disconnected:
			if !l.connected {
				return // another failed attempt to connect
			}
			l.Log.Warn("connection lost", "session_id", l.SessionID())
			l.connected, l.joined, l.lostAt = false, false, l.Now()
			l.lanes.drop(l.Clock.Now())
		case zkconn.Expired, zkconn.NodeChanged:
		}
		l.handler.Event(ev)
	})
}

// minWarning is how far apart warnings are at least, however short a session a server grants.
const minWarning = time.Second

// warnIfUnreachable says, once per session timeout, that ZooKeeper cannot be reached, and why.
func (l *Loop) warnIfUnreachable() {
	now := l.Now()
	if l.connected || now-max(l.lostAt, l.warnedAt) < max(l.Conn.SessionTimeout(), minWarning) {
		return
	}
	l.warnedAt = now
	err := l.Conn.Trouble()
	if err == nil {
		err = errors.New("a server accepts connections but does not answer")
	}
	l.Log.Warn("ZooKeeper cannot be reached", "for", (now - l.lostAt).Round(time.Second).String(),
		"servers", l.Conn.Servers(), "err", err)
}

// OnePerTime keeps a request from being sent twice at once: if it is asked for meanwhile, it is
// sent once more afterwards. The zero value is ready.
type OnePerTime struct{ running, again bool }

// Begin reports whether to send now.
func (o *OnePerTime) Begin() bool {
	if o.running {
		o.again = true
		return false
	}
	o.running = true
	return true
}

// End reports whether to send once more.
func (o *OnePerTime) End() bool {
	again := o.again
	o.running, o.again = false, false
	return again
}

// Running reports whether the request is under way.
func (o *OnePerTime) Running() bool { return o.running }

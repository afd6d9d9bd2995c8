package coord

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/deputy"
	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/keeper"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ErrNotHandedBack is returned by Run when the connection was lost while leaving for so long that
// the session is over: other instances take over the slots.
var ErrNotHandedBack = errors.New("ZooKeeper was away; what was owned is taken over by others")

// Runner runs the slots that the instance owns, and hears of the ticks of others that the instance
// sees.
type Runner interface {
	journal.Runner
	keeper.Reporter
	Observer
}

// Config is all that a Coordinator needs. Every field but Chance, and the optional fields of
// Member, must be set.
type Config struct {
	Conn       *zkconn.Conn // which Run opens, and closes
	ServerType string
	SyncPeriod time.Duration
	// HeartbeatPeriod is how often the heartbeat of a slot without a run is written at least.
	HeartbeatPeriod time.Duration
	ClaimGrace      time.Duration // negative: owners are not relieved
	HistorySize     int           // entries of each slot
	Member          member.Config
	Handlers        catalog.Handlers
	Runner          Runner
	Leases          *leases.Table
	Clock           *leases.Clock
	Chance          *chance.Source
	Logger          *slog.Logger
}

// Coordinator keeps one instance in its group.
type Coordinator struct {
	log     *slog.Logger
	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog
	owner   *owner.Owner
	journal *journal.Journal
	keeper  *keeper.Keeper
	overdue *keeper.Overdue
	removal *keeper.Removal
	parts   *keeper.Parts
	deputy  *deputy.Deputy
	runner  Runner

	observer Observer

	started        bool
	sessionTimeout time.Duration // as granted last; 0 before the first session
	joining        joining
	waiting        waiting
	health         health
	term           int64         // as leader, the last one
	nextSync       time.Duration // Mono
	failure        error         // why the loop must end
}

// New returns a coordinator; Run starts it.
func New(cfg Config) *Coordinator {
	loop := session.New(session.Config{
		Conn: cfg.Conn, ServerType: cfg.ServerType, SyncPeriod: cfg.SyncPeriod, Clock: cfg.Clock, Chance: cfg.Chance, Logger: cfg.Logger,
	})
	c := &Coordinator{log: cfg.Logger, loop: loop, observer: cfg.Runner, runner: cfg.Runner}
	c.health.latest = unknown
	c.member = member.New(loop, cfg.Member)
	c.catalog = catalog.New(loop, c.member, cfg.Handlers)
	c.owner = owner.New(loop, c.member, c.catalog, owner.Config{
		SyncPeriod: cfg.SyncPeriod, IdleBeat: cfg.HeartbeatPeriod, MaxSlots: cfg.Member.Instance.MaxSlots, Weight: cfg.Member.Instance.Weight,
		Grace: cfg.ClaimGrace, Leases: cfg.Leases,
	})
	c.journal = journal.New(loop, c.member, c.catalog, c.owner, cfg.Runner, cfg.HistorySize)
	c.keeper = keeper.New(loop, c.catalog, c.owner, cfg.Runner, c.member.ID())
	c.overdue = keeper.NewOverdue(loop, c.member, c.catalog, cfg.Runner)
	c.removal = keeper.NewRemoval(loop, c.member, c.catalog)
	c.parts = keeper.NewParts(loop, c.member, c.catalog)
	c.deputy = deputy.New(loop, c.member, c.catalog, c.owner, c.journal, cfg.ClaimGrace)
	return c
}

// Run joins the group and keeps the instance in it. It returns nil once Leave was called and every
// slot is handed back; the cause of ctx when that ends sooner (others then take over its slots when
// the session ends, at once if the server could be told); or the reason why this instance cannot be
// part of the group: member.ErrDuplicate, member.ErrMode, zkconn.ErrDenied, or a panic of the
// coordinator.
func (c *Coordinator) Run(ctx context.Context) error { return c.loop.Run(ctx, handler{c}) }

// Leave hands back every slot, each as soon as it is idle, and leaves. Run returns when that is
// done. It returns at once. Idempotent.
func (c *Coordinator) Leave() { c.loop.Post(c.member.Leave) }

// Drain hands back every slot, each as soon as it is idle, and takes none any more. It returns nil
// when that is done, or Run has ended; or the cause of ctx when that ends, and the drain continues.
func (c *Coordinator) Drain(ctx context.Context) error {
	drained := make(chan struct{})
	c.loop.Post(func() { c.member.Drain(drained) })
	select {
	case <-drained:
	case <-c.loop.Ended():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Warm ends the delay of the start.
func (c *Coordinator) Warm() { c.loop.Post(c.member.Warmup.End) }

// Commit writes decisions on slots' ticks; see journal.Journal.Commit.
func (c *Coordinator) Commit(all []*ticks.Commit, done func(int, *zkrec.Tick, error)) {
	c.journal.Commit(all, done)
}

// Amend corrects the history of a run that was given up; see journal.Journal.Amend.
func (c *Coordinator) Amend(slot string, e zkrec.Entry, done func(error)) {
	c.journal.Amend(slot, e, done)
}

// History reads the history of a slot; see journal.Journal.History.
func (c *Coordinator) History(slot string, done func([]zkrec.Entry, error)) {
	c.journal.History(slot, done)
}

// LeaveLine has a slot wait for places no longer; see journal.Places.LeaveLine.
func (c *Coordinator) LeaveLine(slot string) { c.journal.Places.LeaveLine(slot) }

// Drop removes a request that is done; see journal.Journal.Drop.
func (c *Coordinator) Drop(slot, request string) { c.journal.Drop(slot, request) }

// Stack keeps where the handler of a run is that does not end.
func (c *Coordinator) Stack(slot, runID, text string) {
	journal.KeepStack(c.loop, slot, zkrec.Stack{RunID: runID, SID: c.member.ID(), At: c.loop.Clock.Wall(), Text: text})
}

// ClockStepped asks ZooKeeper at once whether the leases hold, and what time it is: this instance's
// wall clock was set, or the machine suspended.
func (c *Coordinator) ClockStepped() {
	c.loop.Post(func() {
		c.owner.Step(lease.Leapt{})
		c.member.Clock.Compare()
	})
}

// handler is the Coordinator as its loop drives it.
type handler struct{ *Coordinator }

// Turn sends heartbeats and syncs, when due.
func (h handler) Turn() {
	if !h.started {
		h.started = true
		h.member.ApplyClosing() // it may have been closed before Run
	}
	now := h.loop.Now()
	h.member.Warmup.Check()
	if now >= h.nextSync {
		h.nextSync = now + h.loop.Chance.Jitter("sync")(h.loop.SyncPeriod())
		h.sync()
	}
	if h.loop.Joined() {
		if now >= h.owner.NextBeat() {
			h.owner.Step(lease.Tick{})
		}
		h.deputy.Look()
	}
}

// Ended ends the leases and the term: once the connection is closed, the others take over at once.
func (h handler) Ended() {
	h.owner.Lapse()
	h.journal.Ended()
	if h.health.latest.Leads { // the term's own end came too late to be told
		h.observer.LeadsNoMore(h.term, election.ErrStopped)
	}
}

// sync looks again, whatever the watches told or missed. Without a session it only refuses claims
// whose lease has lapsed.
func (c *Coordinator) sync() {
	c.journal.AdvanceAll()
	if !c.loop.Joined() {
		return
	}
	c.catalog.Sync()
	c.overdue.Sync()
	c.removal.Sync()
	c.parts.Sync()
	c.deputy.Sync()
	c.keeper.Sync()
	c.journal.Sync()
	c.member.CheckLatch()
	c.member.Clock.Sync()
	c.member.Publish()
	c.member.Departed.Sync()
	c.member.Outages.Sync()
	if gone := c.member.Cleanup.Gone(); len(gone) > 0 {
		c.member.Cleanup.Tidy(gone, c.catalog.Traces())
	}
	c.owner.Step(lease.LookAll{})
	c.health.latest.Synced = c.loop.Now()
}

// Settled publishes the changes of the turn, and takes the steps that end the loop.
func (h handler) Settled() (done bool, err error) {
	// Only a drain waits for idleness, and to find it out costs a look at every slot of the group.
	idle := h.owner.Draining() && h.journal.Idle() && h.owner.Idle()
	h.member.SetLoad(h.owner.Count(), idle)
	h.member.Clock.Check()
	h.member.TellState()
	h.waiting.tell(h.loop.Joined(), h.ready())
	h.publishHealth()
	left := h.leave()
	return left || h.failure != nil, h.failure
}

// Next is when the next heartbeat or sync is due, or the loop shows that it turns.
func (h handler) Next() time.Duration {
	next := h.member.Warmup.Next(min(h.nextSync, h.loop.Now()+pulse))
	departing, _ := h.member.Departure()
	switch {
	case h.loop.Joined():
		next = h.deputy.Next(min(next, h.owner.NextBeat()))
	case h.member.Leaving() && h.member.EverJoined() && !departing:
		next = min(next, h.loop.LostAt()+h.loop.Conn.SessionTimeout()) // leave waits for that
	}
	return next
}

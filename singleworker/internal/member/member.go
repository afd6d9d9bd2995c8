package member

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Errors that end an instance. Callers branch on them.
var (
	// ErrDuplicate is returned when a live instance of the group has the same id.
	ErrDuplicate = errors.New("another live instance has this id")
	// ErrMode is returned when a live instance of the group runs in another mode.
	ErrMode = errors.New("an instance of the group runs in another mode")
)

// Declaration is a job that the application's code declares.
type Declaration struct {
	Job  string
	Spec zkrec.Spec
}

// Config describes this instance.
type Config struct {
	ID           string
	Instance     zkrec.Instance // its record, without what changes
	Latch        bool           // latch mode
	Drained      bool           // Drain was called before Run
	Handlers     []string       // names; nil: not published
	Declarations []Declaration
}

// The notices of this room.
type (
	// Draining tells whether this instance takes no further slots, and hands back what it owns.
	Draining struct{ On bool }
	// Lost tells that this instance's node was deleted or overwritten: the others consider it dead
	// although its session is alive.
	Lost struct{}
	// Leading tells that a term of this instance as leader has begun.
	Leading struct{}
	// Unregistered tells that a leaving instance's registration at a job is gone.
	Unregistered struct{ Job string }
)

// Member is this instance as a member of its group.
type Member struct {
	Cleanup *Cleanup // after members that have died

	loop *session.Loop
	cfg  Config

	everJoined bool
	load       load
	published  zkrec.Instance // what the ephemeral node says
	told       string         // the state that was last told, or tried to be
	publishing session.OnePerTime
	closing    closing
	latch      latch
	departure  departure
	logged     map[string]string // by path: why it cannot be read, as last logged
}

// load is what this instance owns.
type load struct {
	owned int
	idle  bool // draining, owns nothing, runs nothing and has nothing to write
}

// New returns a member that has yet to join.
func New(loop *session.Loop, cfg Config) *Member {
	return &Member{
		Cleanup: &Cleanup{loop: loop, id: cfg.ID, registered: make(map[string]int)},
		loop:    loop, cfg: cfg, closing: closing{drained: cfg.Drained, standby: cfg.Latch},
	}
}

// ID is this instance's id.
func (m *Member) ID() string { return m.cfg.ID }

// Self identifies this start of this instance.
func (m *Member) Self() lease.Member {
	return lease.Member{SID: m.cfg.ID, Incarnation: m.cfg.Instance.Incarnation}
}

// Lives reports whether another instance was there when the group was last read.
func (m *Member) Lives(sid string) bool {
	_, found := m.Cleanup.peers[sid]
	return found
}

// SetLoad says what this instance owns, and whether it drains and has become idle.
func (m *Member) SetLoad(owned int, idle bool) { m.load = load{owned, idle} }

// Joined notes that the ephemeral node exists, and what it says.
func (m *Member) Joined(record zkrec.Instance) {
	m.everJoined = true
	m.published, m.told = record, record.State
	m.contend()
}

// EverJoined reports whether this instance was part of the group since its start.
func (m *Member) EverJoined() bool { return m.everJoined }

// Disconnected notes that who comes and goes is not seen now.
func (m *Member) Disconnected() { m.Cleanup.since = nil }

// state is this instance's, for the others and for people.
func (m *Member) state() string {
	switch {
	case m.closing.leaving:
		return zkrec.InstanceStopping
	case !m.closing.closed():
		return zkrec.InstanceActive
	case !m.Drained():
		return zkrec.InstanceDraining
	case m.closing.order != nil && m.closing.order.Incarnation == "":
		return zkrec.InstanceDisabled
	case m.closing.order == nil && !m.closing.drained:
		return zkrec.InstanceStandby
	}
	return zkrec.InstanceDrained
}

// Record is this instance's record as it should be.
func (m *Member) Record() zkrec.Instance {
	record := m.cfg.Instance
	record.Handlers = m.published.Handlers // as decided when the instance joined
	record.Owned, record.State, record.Withdrawn = m.load.owned, m.state(), m.closing.drained
	record.Standby, record.SessionTimeout = m.closing.standby, zkrec.Duration(m.loop.Conn.SessionTimeout())
	return record
}

// Publish brings the ephemeral node up to date.
func (m *Member) Publish() {
	want := m.Record()
	if !m.loop.Joined() || want == m.published || !m.publishing.Begin() {
		return
	}
	path := m.loop.Tree.Instance(m.cfg.ID)
	m.loop.Async("publish", func(ctx context.Context) func() {
		err := changeOwn(ctx, m.loop, m.cfg.ID, func(version int32) zkconn.Op {
			return zkconn.SetOp(path, want.Encode(), version)
		})
		return func() {
			if err == nil {
				m.published = want
			} else {
				m.loop.Log.Debug("instance record not updated", "err", err)
			}
			if m.publishing.End() {
				m.Publish()
			}
			if !m.publishing.Running() {
				m.ApplyClosing()
			}
		}
	})
}

// TellState publishes the state when it has changed, and tells callers of Drain when the drain is
// complete. The next sync repeats a write that failed.
func (m *Member) TellState() {
	if state := m.state(); m.loop.Joined() && state != m.told {
		m.told = state
		m.Publish()
	}
	if len(m.closing.waiting) > 0 && m.Drained() {
		for _, drained := range m.closing.waiting {
			close(drained)
		}
		m.closing.waiting = nil
	}
}

// Group is one reading of the instances and of the orders.
type Group struct {
	Peers      map[string]lease.Peer
	orders     map[string]order
	unreadable map[string]error // of which nothing is known but that they live, or that are not instances
}

// errNoSession is why a node below Instances does not count as an instance: someone created it manually.
var errNoSession = errors.New("no session holds it, so it is not an instance's; delete it")

// FetchGroup reads the live instances and operators' orders, and watches both. It is called beside
// the loop.
func (m *Member) FetchGroup(ctx context.Context) (g Group, err error) {
	var names []string
	var ordersErr error
	m.loop.Together(ctx, 2, func(ctx context.Context, i int) {
		if i == 0 {
			names, _, err = m.loop.Conn.ChildrenW(ctx, m.loop.Tree.Instances())
		} else {
			g.orders, ordersErr = fetchOrders(ctx, m.loop)
		}
	})
	if err = errors.Join(err, ordersErr); err != nil {
		return Group{}, err
	}
	g.Peers, g.unreadable = make(map[string]lease.Peer, len(names)), make(map[string]error)
	for _, i := range readInstances(ctx, m.loop, names) {
		switch {
		case errors.Is(i.err, zkconn.ErrNoNode):
			continue // gone in between
		case zkconn.IsUnknown(i.err):
			return Group{}, i.err
		case errors.Is(i.err, errNoSession):
			g.unreadable[i.sid] = i.err
			continue
		case i.err != nil: // it lives, and that is all that is known of it
			g.unreadable[i.sid] = i.err
		}
		ordered, found := g.orders[i.sid]
		g.Peers[i.sid] = lease.Peer{
			Incarnation: i.Incarnation,
			Opaque:      i.err != nil,
			Closed:      i.Closed() || found && ordered.Binds(i.Incarnation),
			MaxSlots:    i.MaxSlots,
			Weight:      i.Weight,
			Session:     time.Duration(i.SessionTimeout),
		}
	}
	return g, nil
}

// Follow takes in a reading of the group that was begun in the given connection. It reports whether
// this instance is missing from it: the others consider it dead, and Lost is told.
func (m *Member) Follow(attempt int, g Group) (lost bool) {
	if attempt == m.loop.Attempt() && m.loop.Joined() && m.departure == (departure{}) &&
		g.Peers[m.cfg.ID].Incarnation != m.cfg.Instance.Incarnation {
		m.loop.Log.Error("this instance's node was deleted or overwritten; joining again",
			"path", m.loop.Tree.Instance(m.cfg.ID))
		m.loop.SetJoined(false)
		m.loop.Tell(Lost{})
		lost = true
	}
	for sid, err := range g.unreadable {
		m.LogUnreadable(m.loop.Tree.Instance(sid), err)
	}
	m.Cleanup.peers, m.Cleanup.orders, m.Cleanup.groupRead = g.Peers, g.orders, attempt
	m.follow(g.orders)
	return lost
}

// LogUnreadable says, once per path and reason, that a node of the group cannot be read.
func (m *Member) LogUnreadable(path string, err error) {
	level := slog.LevelError
	if zkconn.IsUnknown(err) || m.logged[path] == err.Error() {
		level = slog.LevelDebug
	}
	if m.logged == nil {
		m.logged = make(map[string]string)
	}
	m.logged[path] = err.Error()
	text := "group not fully known: a node cannot be read"
	if errors.Is(err, errNoSession) {
		text = "node ignored: it is not an instance"
	}
	m.loop.Log.Log(context.Background(), level, text, "path", path, "err", err)
}

// instanceRead is what was read of an instance.
type instanceRead struct {
	sid string
	zkrec.Instance
	stat zkconn.Stat
	err  error
}

// readInstances reads the records of some instances, at the cost of one round trip.
func readInstances(ctx context.Context, l *session.Loop, sids []string) []instanceRead {
	all := make([]instanceRead, len(sids))
	l.Together(ctx, len(sids), func(ctx context.Context, i int) {
		all[i].sid = sids[i]
		all[i].Instance, all[i].stat, all[i].err = readInstance(ctx, l, l.Tree.Instance(sids[i]))
	})
	return all
}

// readInstance reads a record. The error is errNoSession for a node that no session holds, and otherwise
// why nothing is known of an instance but that it lives.
func readInstance(ctx context.Context, l *session.Loop, path string) (record zkrec.Instance, stat zkconn.Stat, err error) {
	data, stat, err := l.Conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrDenied) { // who holds it may be read by anyone
		if held, found, existsErr := l.Conn.Exists(ctx, path); existsErr == nil && found {
			stat = held
		} else if existsErr != nil {
			return record, stat, existsErr
		}
	}
	switch {
	case stat.Czxid != 0 && !stat.Ephemeral():
		return record, stat, errNoSession
	case err != nil:
		return record, stat, err
	}
	record, err = zkrec.ParseInstance(data)
	return record, stat, err
}

// departure is the state of the leaving transaction.
type departure struct{ running, done bool }

// Departure reports whether this instance's nodes are being deleted, or are gone.
func (m *Member) Departure() (running, done bool) { return m.departure.running, m.departure.done }

// Depart deletes this instance's node and its registrations at the given jobs.
func (m *Member) Depart(jobs []string) {
	m.departure.running = true
	groups := make([][]zkconn.Op, 0, len(jobs)+2)
	for _, job := range jobs {
		path := m.loop.Tree.Registration(job, m.cfg.ID)
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(path, zkconn.AnyVersion)})
	}
	if o := m.closing.order; o != nil && o.Incarnation != "" { // it binds no later start
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(m.loop.Tree.Order(m.cfg.ID), o.version)})
	}
	joined := m.loop.Joined() // otherwise the node may be another instance's of the same id
	m.loop.Async("depart", func(ctx context.Context) func() {
		results := m.loop.Apply(ctx, groups)
		again := slices.ContainsFunc(results, func(r session.Result) bool { return zkconn.IsUnknown(r.Err) })
		if joined && !again {
			again = zkconn.IsUnknown(changeOwn(ctx, m.loop, m.cfg.ID, func(version int32) zkconn.Op {
				return zkconn.DeleteOp(m.loop.Tree.Instance(m.cfg.ID), version)
			}))
		}
		return func() {
			for i, job := range jobs {
				if !zkconn.IsUnknown(results[i].Err) {
					m.loop.Tell(Unregistered{job})
				}
			}
			m.departure = departure{done: !again}
		}
	})
}

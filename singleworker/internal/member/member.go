package member

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
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
	Job job.Job // normal

	late bool // by a running Manager
}

func (d Declaration) fingerprint() string { return zkrec.Spec{Job: d.Job}.Fingerprint() }

// Config describes this instance.
type Config struct {
	ID        string
	Instance  zkrec.Instance // its record, without what changes
	Latch     bool           // latch mode
	LatchPath string         // of its election; empty: the group's own
	Drained   bool           // Drain was called before Run
	Handlers  []string       // names; nil: not published
	// MaxClockOffset is how far the wall clock may differ from ZooKeeper's before the instance is
	// closed. Zero, or less: there is no limit.
	MaxClockOffset time.Duration
	// StartupDelay is how long it is closed from its start on.
	StartupDelay time.Duration
	Declarations []Declaration
}

// The notices of this room.
type (
	// Draining tells whether this instance takes no further slots, and hands back its own.
	Draining struct{ On bool }
	// Lost tells that this instance's node was deleted or overwritten: the others consider it dead
	// although its session is alive.
	Lost struct{}
	// Leading tells that a term of this instance as leader has begun.
	Leading struct{ Token int64 }
	// LeadingEnded tells that it has ended, and why.
	LeadingEnded struct {
		Token int64
		Cause error
	}
	// AbleChanged tells that Able is another one.
	AbleChanged struct{}
	// Unregistered tells that a leaving instance's registration at a job is gone.
	Unregistered struct{ Job string }
)

// Member is this instance as a member of its group.
type Member struct {
	Cleanup  *Cleanup  // after members that have died
	Departed *Departed // who has left
	Outages  *Outages  // of ZooKeeper
	Roster   *Roster   // of the live ones
	Entry    *Entry    // into the group
	Clock    *Clock    // this instance's, and the others' as they publish it
	Place    *Place    // of this one
	Warmup   *Warmup   // of this one, at its start

	loop *session.Loop
	cfg  Config

	everJoined bool
	able       *Able
	load       load
	published  zkrec.Instance // what the ephemeral node says
	again      bool           // it is to be written although it says what it should
	refused    *handlerNode   // the list of handlers that could not be published
	told       string         // the state that was last told, or tried to be
	publishing session.OnePerTime
	closing    closing
	latch      latch
	departure  departure
	logged     map[string]string // by path: why it cannot be read, as last logged
}

// load is this instance's share of the work.
type load struct {
	owned int
	idle  bool // draining, owns nothing, runs nothing and has nothing to write
}

// New returns a member that has yet to join.
func New(loop *session.Loop, cfg Config) *Member {
	cfg.Instance.Specs = zkrec.SpecSchema
	m := &Member{
		Cleanup: &Cleanup{loop: loop, id: cfg.ID, missing: make(map[string]bool)},
		Roster:  &Roster{loop: loop},
		Entry:   newEntry(loop, cfg),
		Place:   &Place{loop: loop, id: cfg.ID, instance: cfg.Instance},
		loop:    loop, cfg: cfg, closing: closing{drained: cfg.Drained, standby: cfg.Latch, cold: cfg.StartupDelay > 0},
	}
	m.Warmup = &Warmup{member: m, until: loop.Now() + cfg.StartupDelay}
	m.Outages = &Outages{loop: loop, id: cfg.ID, cleanup: m.Cleanup}
	m.Departed = newDeparted(loop, cfg.ID, m.Cleanup)
	m.Clock = &Clock{member: m, limit: cfg.MaxClockOffset}
	loop.Server.OnAnswer = m.Clock.Check // what follows from the offset is never older than that
	return m
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

// Able says which live members have which handlers, as the group was last read.
func (m *Member) Able() *Able { return m.able }

// SetLoad notes how many slots this instance owns, and whether it drains and has become idle.
func (m *Member) SetLoad(owned int, idle bool) { m.load = load{owned, idle} }

// Joined notes that the ephemeral node exists, with this record.
func (m *Member) Joined(record zkrec.Instance) {
	m.everJoined = true
	m.published, m.told = record, record.State
	if record.Handlers == "" {
		m.refused = m.Entry.handlers.Load()
	}
	m.contend()
}

// EverJoined reports whether this instance was part of the group since its start.
func (m *Member) EverJoined() bool { return m.everJoined }

// Disconnected notes that who comes and goes is not seen now.
func (m *Member) Disconnected() { m.Cleanup.since = nil }

// State is this instance's, for the others and for people.
func (m *Member) State() string {
	switch {
	case m.closing.leaving:
		return zkrec.InstanceStopping
	case !m.closing.closed():
		return zkrec.InstanceActive
	case m.closing.wrongClock:
		return zkrec.InstanceWrongClock
	case m.closing.onlyWarming():
		return zkrec.InstanceWarming
	case !m.Drained():
		return zkrec.InstanceDraining
	case m.closing.excluded != nil, m.closing.order != nil && m.closing.order.Incarnation == "":
		return zkrec.InstanceDisabled
	case m.closing.order == nil && !m.closing.drained:
		return zkrec.InstanceStandby
	}
	return zkrec.InstanceDrained
}

// Record is this instance's record as it should be.
func (m *Member) Record() zkrec.Instance {
	record := m.cfg.Instance
	if list := m.Entry.handlers.Load(); list != m.refused {
		record.Handlers = list.hash
	}
	record.Owned, record.State, record.Withdrawn = m.load.owned, m.State(), m.closing.drained
	record.Standby, record.SessionTimeout = m.closing.standby, zkrec.Duration(m.loop.Conn.SessionTimeout())
	if longest := zkrec.Duration(m.loop.Conn.LongestTimeout()); longest > record.SessionTimeout {
		record.SessionLongest = longest
	}
	record.ClockOffset, record.ClockBound = zkrec.Duration(m.Clock.told), zkrec.Duration(m.Clock.toldBound)
	return record
}

// Publish brings the ephemeral node up to date.
func (m *Member) Publish() {
	want, list := m.Record(), m.Entry.handlers.Load()
	if !m.loop.Joined() || !m.again && reflect.DeepEqual(want, m.published) || !m.publishing.Begin() {
		return
	}
	m.again = false
	path := m.loop.Tree.Instance(m.cfg.ID)
	named := want.Handlers == "" || want.Handlers == m.published.Handlers
	m.loop.Async("publish", func(ctx context.Context) func() {
		var err error
		if !named {
			err = m.Entry.keepHandlers(ctx, list)
		}
		if err != nil && !zkconn.IsUnknown(err) && !errors.Is(err, zkconn.ErrNoNode) {
			m.loop.Log.Warn("handlers not published: the others read registrations instead", "err", err)
			err, want.Handlers = nil, ""
		}
		if err == nil {
			err = changeOwn(ctx, m.loop, m.cfg.ID, func(version int32) zkconn.Op {
				return zkconn.SetOp(path, want.Encode(), version)
			})
		}
		return func() {
			if err == nil {
				if m.published = want; want.Handlers == "" {
					m.refused = list
				}
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
	if state := m.State(); m.loop.Joined() && state != m.told {
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

// departure is the state of the leaving transaction.
type departure struct{ running, done bool }

// Departure reports whether this instance's nodes are being deleted, or are gone.
func (m *Member) Departure() (running, done bool) { return m.departure.running, m.departure.done }

// Depart deletes this instance's node and its registrations at the given jobs.
func (m *Member) Depart(jobs []string) {
	m.departure.running = true
	groups := make([][]zkconn.Op, 0, len(jobs)+3)
	for _, job := range jobs {
		path := m.loop.Tree.Registration(job, m.cfg.ID)
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(path, zkconn.AnyVersion)})
	}
	if o := m.closing.order; o != nil && o.Incarnation != "" { // it binds no later start
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(m.loop.Tree.Order(m.cfg.ID), o.version)})
	}
	joined := m.loop.Joined() // otherwise the node may be another instance's of the same id
	if stopped := m.Departed.stopped(); joined && stopped != nil {
		groups = append(groups, stopped)
	}
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

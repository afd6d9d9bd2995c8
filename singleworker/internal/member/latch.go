package member

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// In latch mode one elected instance of the group owns every job; the others stand by, closed.
// Everything else is as in lease mode: the leader adopts the slots that it finds, by the same
// transactions, and an instance whose leadership was lost hands over its own. So an election that
// went wrong could not run a job twice. In addition, claims check that the leader's node exists.

// latch is this instance's part in the election.
type latch struct {
	path      string
	contender *election.Contender // nil while this instance is closed for another reason
	withdraw  context.CancelFunc  // of contender
	withdrew  bool                // a contender has
	node      string              // of the current term, or empty
	token     int64               // of the last term
	lostAt    time.Duration       // Mono: when the last term ended
}

// vacate gives up the places of contenders that have withdrawn: the servers may have lost that.
func (l *latch) vacate(loop *session.Loop) {
	if !l.withdrew {
		return
	}
	path, contender := l.path, l.contender
	loop.Async("leave the election", func(ctx context.Context) func() {
		err := election.Vacate(ctx, loop.Conn, path, contender)
		return func() {
			if err != nil { // the next connection tries again
				loop.Log.Debug("places in the election are not given up", "err", err)
			}
		}
	})
}

// Leads reports whether ticks may be claimed: always in lease mode; in latch mode during a term as
// leader, whose node it returns.
func (m *Member) Leads() (node string, ok bool) {
	return m.latch.node, !m.cfg.Latch || m.latch.node != ""
}

// Event takes in the end of an outage, and passes a session or watch event on to the election. A
// leader's node ends with its session: in the next one it stands by until it is elected again. The
// record with which it joins must not say otherwise, or the leader would offer it slots.
func (m *Member) Event(ev zkconn.Event) {
	if ev.Kind == zkconn.Connected && m.everJoined {
		m.Outages.over()
		m.latch.vacate(m.loop)
	}
	if ev.Kind == zkconn.Expired && m.cfg.Latch {
		m.standBy()
	}
	if m.latch.contender != nil {
		m.latch.contender.OnEvent(ev)
	}
}

// contend enters the election, or withdraws: an instance that must not own anything does not lead.
func (m *Member) contend() {
	cl := &m.closing
	may := m.cfg.Latch && m.everJoined && !cl.leaving && !cl.withheld()
	switch {
	case may && m.latch.contender == nil:
		m.enter()
	case !may && m.latch.contender != nil:
		m.latch.withdraw()
		m.latch.contender, m.latch.withdrew = nil, true
	}
}

func (m *Member) enter() {
	m.latch.path = cmp.Or(m.cfg.LatchPath, m.loop.Tree.Leader())
	contender := election.New(election.Config{
		Path: m.latch.path, ID: m.cfg.ID, Clock: m.loop.Clock, Chance: m.loop.Chance, Logger: m.loop.Log, Serve: m.serve,
	})
	if m.loop.Connected() {
		contender.OnEvent(zkconn.Event{Kind: zkconn.Connected})
	}
	ctx, withdraw := context.WithCancel(context.Background())
	m.latch.contender, m.latch.withdraw = contender, withdraw
	m.loop.Go("election", func(tasks context.Context) error {
		defer withdraw()
		defer context.AfterFunc(tasks, withdraw)()
		err := contender.Run(ctx, m.loop.Conn)
		if ctx.Err() != nil && errors.Is(err, election.ErrNotReleased) {
			return nil // its node goes with the session
		}
		return err
	})
}

// serve is a term of leadership.
func (m *Member) serve(ctx context.Context, term election.Term) {
	m.loop.Post(func() {
		if m.latch.node != "" { // an earlier contender's, whose end is not told yet
			m.loop.Tell(LeadingEnded{m.latch.token, election.ErrStopped})
		}
		m.latch.node, m.latch.token = term.Node, term.Token
		m.closing.standby = false
		m.announce()
		m.loop.Tell(Leading{term.Token})
	})
	<-ctx.Done()
	m.loop.Post(func() {
		if m.latch.node != term.Node {
			return // the next term has begun
		}
		m.latch.node, m.latch.lostAt = "", m.loop.Now()
		cause := context.Cause(ctx)
		m.loop.Tell(LeadingEnded{term.Token, cause})
		if !errors.Is(cause, election.ErrSuspended) && !errors.Is(cause, election.ErrLapsed) {
			m.standBy()
		}
	})
}

// standBy hands over this instance's slots: another instance leads, or soon will.
func (m *Member) standBy() {
	if !m.closing.standby {
		m.closing.standby = true
		m.announce()
	}
}

// CheckLatch ends a term whose interruption has lasted too long. A short one ends with the
// connection's return.
func (m *Member) CheckLatch() {
	if _, leads := m.Leads(); !leads && m.loop.Now()-m.latch.lostAt > m.loop.SyncPeriod() {
		m.standBy()
	}
}

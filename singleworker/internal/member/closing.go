package member

import (
	"context"
	"errors"
	"log/slog"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// An instance is closed, and takes no further slots, for six reasons: it leaves (Leave), its
// program drains it (Drain), it has just started and is not warm (Warmup), an operator drains it
// with an order, a node below _disabled, or disables its host, its clock is wrong (Clock), or it
// stands by in latch mode. The others learn of all but orders from its record, which is written
// before the first slot is offered. Everybody reads orders with the group, so nobody offers a slot
// to an instance that has not heard of its order yet, nor waits for one that has not heard that its
// order was lifted.

// closing is why this instance takes no slots, and the steps taken because of that.
type closing struct {
	leaving bool
	drained bool   // by the program
	cold    bool   // the delay of its start has not ended
	standby bool   // in latch mode: another instance leads, or none does
	order   *order // nil when none binds this incarnation
	// excluded is the order for the host as a whole, or nil.
	excluded *zkrec.Exclusion
	// wrongClock: the clock is wrong.
	wrongClock bool
	told       bool // Draining was told
	waiting    []chan<- struct{}
}

// order is an operator's order as it was read.
type order struct {
	zkrec.Order
	version int32
}

func (cl *closing) closed() bool {
	return cl.leaving || cl.standby || cl.withheld()
}

// withheld reports whether the program, an operator or a wrong clock keeps this instance from
// owning anything.
func (cl *closing) withheld() bool {
	return cl.cold || cl.ordered() || cl.wrongClock
}

// ordered reports whether the program or an operator has told this instance to own nothing.
func (cl *closing) ordered() bool {
	return cl.drained || cl.order != nil || cl.excluded != nil
}

// onlyWarming reports whether nothing but the delay of its start keeps this instance from owning
// anything. It owns nothing then: it has not been open yet.
func (cl *closing) onlyWarming() bool { return cl.cold && !cl.ordered() && !cl.wrongClock }

// Leave begins to hand back every slot, each as soon as it is idle. Idempotent.
func (m *Member) Leave() {
	if !m.closing.leaving {
		m.closing.leaving = true
		m.announce()
	}
}

// Leaving reports whether Leave was called.
func (m *Member) Leaving() bool { return m.closing.leaving }

// Drain begins to hand back every slot, and closes drained when that is done.
func (m *Member) Drain(drained chan<- struct{}) {
	m.closing.waiting = append(m.closing.waiting, drained)
	if !m.closing.drained {
		m.closing.drained = true
		m.announce()
	}
}

// Drained reports whether this instance owns nothing, runs nothing and will take nothing.
func (m *Member) Drained() bool { return m.closing.told && m.load.idle }

// announce publishes that this instance has closed itself, and only then tells the protocol to
// drain: the others must not offer the slots back.
func (m *Member) announce() {
	m.Publish()
	if !m.publishing.Running() {
		m.ApplyClosing()
	}
}

// ApplyClosing tells the protocol whether to drain.
func (m *Member) ApplyClosing() {
	m.contend()
	if closed := m.closing.closed(); closed != m.closing.told {
		m.closing.told = closed
		m.loop.Tell(Draining{closed})
	}
}

// follow takes in the orders as they were read.
func (m *Member) follow(orders map[string]order) {
	mine, found := orders[m.cfg.ID]
	bound := found && mine.Binds(m.cfg.Instance.Incarnation)
	was := m.closing.order
	m.closing.order = nil
	if bound {
		m.closing.order = &mine
	}
	m.closing.followHost(m.Place.closed(), m.loop.Log)
	switch {
	case bound && was == nil:
		m.loop.Log.Info("draining: ordered by an operator", "by", mine.By, "reason", mine.Reason)
	case !bound && was != nil:
		m.loop.Log.Info("operator's order lifted: taking jobs again")
	}
	m.ApplyClosing()
	if found && !bound {
		dropOrder(m.loop, m.cfg.ID, mine) // for an earlier start, which is over
	}
}

// followHost takes in the order that disables this host, if there is one.
func (cl *closing) followHost(is *zkrec.Exclusion, log *slog.Logger) {
	was := cl.excluded
	cl.excluded = is
	switch {
	case is != nil && was == nil:
		log.Info("draining: an operator has disabled the host", "host", is.Host, "by", is.By, "reason", is.Reason)
	case is == nil && was != nil:
		log.Info("host enabled by an operator: taking jobs again", "host", was.Host)
	}
}

// dropOrder removes an order for a start of this instance that is over.
func dropOrder(l *session.Loop, id string, o order) {
	l.Async("drop order", func(ctx context.Context) func() {
		_, err := l.Conn.Multi(ctx, zkconn.DeleteOp(l.Tree.Order(id), o.version))
		return func() {
			if err != nil {
				l.Log.Debug("order for an earlier start not removed", "err", err)
			}
		}
	})
}

// fetchOrders reads all orders, and watches them. watched is false if not all changes will be told,
// because some may not be read.
func fetchOrders(ctx context.Context, l *session.Loop) (orders map[string]order, watched bool, err error) {
	conn, tree := l.Conn, l.Tree
	sids, _, err := conn.ChildrenW(ctx, tree.Orders())
	if errors.Is(err, zkconn.ErrNoNode) { // created so that it can be watched
		if err = conn.EnsureRoot(ctx, tree.Orders()); err == nil {
			sids, _, err = conn.ChildrenW(ctx, tree.Orders())
		}
	}
	orders, watched = make(map[string]order, len(sids)), true
	if errors.Is(err, zkconn.ErrDenied) {
		return orders, false, nil // an instance that may not read orders has none
	}
	if err != nil {
		return nil, false, err
	}
	read := make([]order, len(sids))
	errs := make([]error, len(sids))
	session.Together(len(sids), func(i int) {
		data, stat, err := conn.GetW(ctx, tree.Order(sids[i]))
		read[i], errs[i] = order{zkrec.ParseOrder(data), stat.Version}, err
	})
	for i, sid := range sids {
		switch {
		case errs[i] == nil, errors.Is(errs[i], zkconn.ErrDenied):
			orders[sid] = read[i]
			watched = watched && errs[i] == nil
		case !errors.Is(errs[i], zkconn.ErrNoNode):
			return nil, false, errs[i]
		}
	}
	return orders, watched, nil
}

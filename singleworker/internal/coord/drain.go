package coord

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// An instance is closed, and takes no further slots, for four reasons: it
// leaves (Leave), its program says so (Drain), an operator does, by a node below
// _disabled, or it stands by in latch mode. But for orders, the others learn by its instance record,
// which is written before the first slot is offered. Orders everybody reads
// with the group: so nobody offers anything to an instance that has not heard of
// its order yet, nor waits for one whose order was taken back to say so.

// closing is why this instance takes no slots, and what has been done about it.
type closing struct {
	leaving   bool
	withdrawn bool
	standby   bool   // latch mode: another instance leads, or none does
	order     *order // nil when none binds this incarnation
	told      bool   // the protocol was told to drain
	waiting   []chan<- struct{}
}

// order is an operator's order as it was read.
type order struct {
	zkrec.Order
	version int32
}

func (cl *closing) closed() bool { return cl.leaving || cl.withdrawn || cl.standby || cl.order != nil }

// Leave has the instance hand back every slot, each as soon as it is idle,
// and leave. Run returns when it has. Idempotent.
func (c *Coordinator) Leave() {
	c.box.Post(func() {
		if !c.closing.leaving {
			c.closing.leaving = true
			c.announce()
		}
	})
}

// Drain has the instance hand back every slot, each as soon as it is idle, and
// take none any more. It returns when that is done, or Run has ended; or with
// the cause of the end of ctx, and then the draining goes on all the same.
func (c *Coordinator) Drain(ctx context.Context) error {
	drained := make(chan struct{})
	c.box.Post(func() {
		c.closing.waiting = append(c.closing.waiting, drained)
		if !c.closing.withdrawn {
			c.closing.withdrawn = true
			c.announce()
		}
	})
	select {
	case <-drained:
	case <-c.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// announce publishes that this instance is closed of its own accord, and then
// has the protocol drain: the others must not offer back what they are offered.
func (c *Coordinator) announce() {
	c.publish()
	if !c.session.publish.running {
		c.heed()
	}
}

// heed tells the protocol whether to drain.
func (c *Coordinator) heed() {
	c.contend()
	closed := c.closing.closed()
	if closed == c.closing.told {
		return
	}
	c.closing.told = closed
	if closed {
		c.step(lease.Drain{})
	} else {
		c.step(lease.Undrain{})
	}
}

// isIdle reports whether nothing is owned, and no run goes on.
func (c *Coordinator) isIdle() bool { return c.machine.Owned() == 0 && len(c.ticks) == 0 }

// isDrained reports whether that is so for good.
func (c *Coordinator) isDrained() bool { return c.closing.told && c.isIdle() }

// state is this instance's, for the others and for people.
func (c *Coordinator) state() string {
	switch {
	case c.closing.leaving:
		return zkrec.InstanceStopping
	case !c.closing.closed():
		return zkrec.InstanceActive
	case !c.isDrained():
		return zkrec.InstanceDraining
	case c.closing.order != nil && c.closing.order.Incarnation == "":
		return zkrec.InstanceDisabled
	case c.closing.order == nil && !c.closing.withdrawn:
		return zkrec.InstanceStandby
	}
	return zkrec.InstanceDrained
}

// self is this instance's record as it should be.
func (c *Coordinator) self() zkrec.Instance {
	record := c.cfg.Instance
	record.Owned, record.State, record.Withdrawn = len(c.owned), c.state(), c.closing.withdrawn
	record.Standby, record.SessionTimeout = c.closing.standby, zkrec.Duration(c.conn.SessionTimeout())
	return record
}

// tellState says at once when the state is another, to the group and to those
// who wait for the end of a drain. A write that is refused is repeated by the
// next sync.
func (c *Coordinator) tellState() {
	if state := c.state(); c.session.joined && state != c.session.told {
		c.session.told = state
		c.publish()
	}
	if len(c.closing.waiting) > 0 && c.isDrained() {
		for _, drained := range c.closing.waiting {
			close(drained)
		}
		c.closing.waiting = nil
	}
}

// ordered follows the orders as they were read.
func (c *Coordinator) ordered(orders map[string]order) {
	c.traces.orders = orders
	mine, found := orders[c.cfg.SID]
	bound := found && mine.Binds(c.cfg.Instance.Incarnation)
	was := c.closing.order
	c.closing.order = nil
	if bound {
		c.closing.order = &mine
	}
	switch {
	case bound && was == nil:
		c.log.Info("closed by an operator: what is owned is handed over", "by", mine.By, "reason", mine.Reason)
	case !bound && was != nil:
		c.log.Info("no longer closed by an operator")
	}
	c.heed()
	if found && !bound {
		c.dropOrder(mine) // for an earlier start, which is over
	}
}

// dropOrder removes an order for a start of this instance that is over.
func (c *Coordinator) dropOrder(o order) {
	c.async("drop order", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, zkconn.DeleteOp(c.tree.Order(c.cfg.SID), o.version))
		return func() {
			if err != nil {
				c.log.Debug("order for an earlier start not removed", "err", err)
			}
		}
	})
}

// fetchOrders reads all orders, and has changes of them reported.
func (c *Coordinator) fetchOrders(ctx context.Context) (map[string]order, error) {
	sids, _, err := c.conn.ChildrenW(ctx, c.tree.Orders())
	if errors.Is(err, zkconn.ErrNoNode) { // made to be watched
		if err = c.conn.EnsureRoot(ctx, c.tree.Orders()); err == nil {
			sids, _, err = c.conn.ChildrenW(ctx, c.tree.Orders())
		}
	}
	if errors.Is(err, zkconn.ErrDenied) {
		return map[string]order{}, nil // where we may not look, nobody gives us orders
	}
	if err != nil {
		return nil, err
	}
	read := make([]order, len(sids))
	errs := make([]error, len(sids))
	c.together(ctx, len(sids), func(ctx context.Context, i int) {
		data, stat, err := c.conn.GetW(ctx, c.tree.Order(sids[i]))
		read[i], errs[i] = order{zkrec.ParseOrder(data), stat.Version}, err
	})
	orders := make(map[string]order, len(sids))
	for i, sid := range sids {
		switch {
		case errs[i] == nil, errors.Is(errs[i], zkconn.ErrDenied):
			orders[sid] = read[i]
		case !errors.Is(errs[i], zkconn.ErrNoNode):
			return nil, errs[i]
		}
	}
	return orders, nil
}

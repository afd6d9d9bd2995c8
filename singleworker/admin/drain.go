package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// OrderOptions record who gives an order, and why.
type OrderOptions struct {
	By     string // one printable line, up to 1 KiB
	Reason string // the same
}

// OrderResult is what Drain, Disable or Enable did.
type OrderResult struct {
	Outcome Outcome `json:"outcome"` // OutcomeOrdered, OutcomeEnabled or OutcomeUnchanged
	// Order is the order now in force; after Enable, the one it removed, or nil if
	// there was no order.
	Order *Order `json:"order"`
	// Instance is the running instance; nil if no instance with that ID runs.
	Instance *Instance `json:"instance"`
	// Bound are the running instances that an order for a host binds, sorted by ID.
	Bound []Instance `json:"bound,omitempty"`
	// Deaf are the IDs of running instances whose version is too old to follow the order, which is for
	// one job or for a host: stop them, or disable them as a whole.
	Deaf []string `json:"deaf,omitempty"`
}

// Drain orders a running instance to release everything it owns and to take
// nothing new: it starts no further run, hands idle jobs over at once and the
// others when their runs end. The order ends with this incarnation; after a restart
// the instance is active. A disabled instance stays disabled, with
// OutcomeUnchanged. Errors: *invalid.FieldError, ErrNoInstance, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Drain(ctx context.Context, sid string, opts OrderOptions) (OrderResult, error) {
	return ordering{c.members, c.writer}.order(ctx, zkrec.DeedDrain, sid, opts, func(instance *Instance, old *zkrec.Order) (zkrec.Order, bool, error) {
		if instance == nil {
			return zkrec.Order{}, false, ErrNoInstance
		}
		next := zkrec.Order{Incarnation: instance.Incarnation, By: opts.By, Reason: opts.Reason}
		same := old != nil && (old.Incarnation == "" || sameOrder(*old, next))
		return next, !same, nil
	})
}

// Disable is like Drain, but the order stays in force over restarts, until
// Enable. The instance need not be running.
// Errors: *invalid.FieldError, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) Disable(ctx context.Context, sid string, opts OrderOptions) (OrderResult, error) {
	return ordering{c.members, c.writer}.order(ctx, zkrec.DeedDisable, sid, opts, func(_ *Instance, old *zkrec.Order) (zkrec.Order, bool, error) {
		next := zkrec.Order{By: opts.By, Reason: opts.Reason}
		return next, old == nil || !sameOrder(*old, next), nil
	})
}

// sameOrder compares orders, ignoring their times.
func sameOrder(a, b zkrec.Order) bool {
	return a.Incarnation == b.Incarnation && a.By == b.By && a.Reason == b.Reason
}

// ordering gives and takes back operators' orders to instances.
type ordering struct {
	members
	writer
}

// orderer decides on the next order, given the running instance and the present
// order, both of which may be nil. give is false if nothing has to be written.
type orderer func(instance *Instance, old *zkrec.Order) (next zkrec.Order, give bool, err error)

func (or ordering) order(ctx context.Context, doing, sid string, opts OrderOptions, judge orderer) (OrderResult, error) {
	if err := checkOrder(sid, opts); err != nil {
		return OrderResult{}, err
	}
	var result OrderResult
	var written []byte // by a try whose outcome is not known
	at := time.Now().UTC().Round(time.Millisecond)
	deed := or.deed(ctx, doing, Who(opts))
	deed.Where = sid
	err := or.persist(ctx, func() (err error) {
		result, err = or.orderOnce(ctx, sid, at, deed, judge, &written)
		return err
	})
	if err != nil {
		return OrderResult{}, fmt.Errorf("%s %s: %w", doing, sid, uncertain(err, written != nil))
	}
	return result, nil
}

func checkOrder(sid string, opts OrderOptions) error {
	if err := job.CheckNodeName(sid); err != nil {
		return &invalid.FieldError{Field: "InstanceID", Value: sid, Err: err}
	}
	return checkWho(opts.By, opts.Reason)
}

// orderOnce reads the present order and writes the next one if it differs.
func (or ordering) orderOnce(
	ctx context.Context, sid string, at time.Time, deed zkrec.Deed, judge orderer, written *[]byte,
) (OrderResult, error) {
	path := or.tree.Order(sid)
	data, stat, err := or.conn.Get(ctx, path)
	found := err == nil
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return OrderResult{}, err
	}
	live, err := or.live(ctx)
	if err != nil {
		return OrderResult{}, err
	}
	result := OrderResult{Outcome: OutcomeUnchanged}
	if instance, runs := live[sid]; runs {
		result.Instance = &instance
	}
	var old *zkrec.Order
	if found {
		order := zkrec.ParseOrder(data)
		old = &order
	}
	next, give, err := judge(result.Instance, old)
	if err != nil {
		return result, err
	}
	applied := *written != nil && bytes.Equal(data, *written)
	if applied || !give {
		if applied {
			result.Outcome = OutcomeOrdered
		}
		order := orderOf(sid, *old)
		result.Order = &order
		return result, nil
	}
	next.At = at
	*written = next.Encode()
	op := zkconn.SetOp(path, *written, stat.Version)
	if !found {
		if err := or.conn.EnsureRoot(ctx, or.tree.Orders()); err != nil {
			return result, err
		}
		op = zkconn.CreateOp(path, *written)
	}
	if _, err := or.multi(ctx, deed, op); err != nil {
		return result, err
	}
	order := orderOf(sid, next)
	result.Outcome, result.Order = OutcomeOrdered, &order
	if result.Instance != nil {
		result.Instance.Order = &order
		if result.Instance.State == InstanceActive {
			result.Instance.State = InstanceDraining
		}
	}
	return result, nil
}

// Enable removes the order of Drain or Disable. Without an order, the outcome is
// OutcomeUnchanged. Errors: *invalid.FieldError, ErrDenied, ErrUnavailable.
func (c *Client) Enable(ctx context.Context, sid string) (OrderResult, error) {
	if err := checkOrder(sid, OrderOptions{}); err != nil {
		return OrderResult{}, err
	}
	parse := func(data []byte) Order { return orderOf(sid, zkrec.ParseOrder(data)) }
	deed := c.deed(ctx, zkrec.DeedEnable, Who{})
	deed.Where = sid
	return ordering{c.members, c.writer}.withdraw(ctx, sid, c.tree.Order(sid), deed, parse, func(result *OrderResult) error {
		live, err := c.live(ctx)
		if instance, runs := live[sid]; runs {
			result.Instance = &instance
		}
		return err
	})
}

// withdraw removes the order at a path, if there is one, and then looks at those that it bound.
func (or ordering) withdraw(
	ctx context.Context, whose, path string, deed zkrec.Deed, parse func([]byte) Order, look func(*OrderResult) error,
) (OrderResult, error) {
	var result OrderResult
	var taken *Order // by a try whose outcome is not known
	err := or.conn.Retry(ctx, func() error {
		result = OrderResult{Outcome: OutcomeUnchanged, Order: taken}
		data, _, err := or.conn.Get(ctx, path)
		if err == nil {
			order := parse(data)
			taken, result.Order = &order, &order
			_, err = or.multi(ctx, deed, zkconn.DeleteOp(path, zkconn.AnyVersion))
		}
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return err
		}
		if taken != nil {
			result.Outcome = OutcomeEnabled
		}
		return look(&result)
	})
	if err != nil {
		return OrderResult{}, fmt.Errorf("enable %s: %w", whose, uncertain(err, taken != nil))
	}
	return result, nil
}

// AwaitDrained waits until an instance that was ordered to drain owns nothing and runs
// nothing (runs is true), or no longer exists (runs is false). If ctx is done
// first, instance is as it was last seen. Errors: *invalid.FieldError, ErrNotDraining,
// ErrDenied, ErrUnavailable, the cause of ctx.
func (c *Client) AwaitDrained(ctx context.Context, sid string) (instance Instance, runs bool, err error) {
	if err := checkOrder(sid, OrderOptions{}); err != nil {
		return Instance{}, false, err
	}
	err = c.await(ctx, func(l *lookout) (bool, error) {
		nodes, err := l.watch(ctx, zkconn.Read{Path: c.tree.Instance(sid)})
		if err == nil && !errors.Is(nodes[0].Err, zkconn.ErrNoNode) {
			err = nodes[0].Err
		}
		if err != nil {
			return false, err
		}
		all, err := c.counted(ctx)
		if err != nil {
			return false, err
		}
		instance, runs = all[sid]
		if runs = runs && instance.State != InstanceNone; runs && !instance.closed() {
			return false, ErrNotDraining
		}
		settled := instance.State == InstanceDrained || instance.State == InstanceDisabled
		return !runs || settled && instance.Owned == 0, nil
	})
	if err != nil {
		return instance, runs, fmt.Errorf("drain %s: %w", sid, err)
	}
	return instance, runs, nil
}

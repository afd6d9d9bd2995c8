package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The states of an instance. Any but InstanceActive takes no jobs.
const (
	InstanceActive     = "active"
	InstanceDraining   = "draining"   // it hands over what it owns; what it still owns is running
	InstanceDrained    = "drained"    // it owns nothing, until its program ends or it is enabled
	InstanceDisabled   = "disabled"   // it owns nothing, nor does any later start of it, until it is enabled
	InstanceStandby    = "standby"    // latch mode: it owns nothing, because another instance leads, or none does
	InstanceStopping   = "stopping"   // it drains and leaves
	InstanceUnreadable = "unreadable" // a newer version, or a hand, wrote its record
)

// Instance is one running instance of the group.
type Instance struct {
	ID          string    `json:"instance_id"`
	Incarnation string    `json:"incarnation"` // a new one at each start
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Version     string    `json:"version"`
	Owned       int       `json:"owned"`     // slots it owns, by the owner records
	MaxSlots    int       `json:"max_slots"` // it takes no more than that; 0: no limit
	Weight      int       `json:"weight"`    // of its share beside those of the others
	State       string    `json:"state"`     // InstanceActive ...
	Mode        string    `json:"mode"`      // "lease" or "latch"
	Leader      bool      `json:"leader"`    // in latch mode: it owns every job
	// Order is what an operator has told it, that keeps it from owning jobs; nil
	// when there is none.
	Order *Order `json:"order,omitempty"`
	// Withdrawn: its own program has told it to drain, and only its end ends
	// that.
	Withdrawn bool   `json:"withdrawn"`
	Guard     string `json:"-"` // the token of the Guard that watches its process; "" for none
	// ClockOffset is how far its clock is ahead of ZooKeeper's, or behind if it is
	// negative: by its latest heartbeat, so less the time that this one took to get
	// there. Nil: it owns nothing, and sends none. Only Instances tells it. No
	// right to run rests on it; but ticks fire by the instance's clock.
	ClockOffset *time.Duration `json:"-"`
}

// closed reports whether the instance takes no jobs.
func (i Instance) closed() bool {
	switch i.State {
	case InstanceDraining, InstanceDrained, InstanceDisabled, InstanceStopping, InstanceStandby:
		return true
	}
	return false
}

// Order is an operator's order that an instance own nothing.
type Order struct {
	InstanceID string `json:"instance_id"`
	// Incarnation is the start that is to drain; the order ends with it. Empty:
	// the instance is disabled, however often it is started, until it is enabled.
	Incarnation string    `json:"incarnation,omitempty"`
	By          string    `json:"by"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at,omitzero"` // on the clock of who gave it; zero if a hand made it
}

func orderOf(sid string, o zkrec.Order) Order {
	return Order{InstanceID: sid, Incarnation: o.Incarnation, By: o.By, Reason: o.Reason, At: inUTC(o.At)}
}

// Instances lists the running instances, sorted by id. Errors: ErrDenied,
// ErrUnavailable.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	var instances []Instance
	err := c.conn.Retry(ctx, func() error {
		live, slots, err := c.counted(ctx)
		if err != nil {
			return err
		}
		instances = slices.Collect(maps.Values(live))
		return task.Each(ctx, readers, instances, func(ctx context.Context, k int, i Instance) (err error) {
			if i.Owned > 0 {
				instances[k].ClockOffset, err = c.clockOffset(ctx, slots[i.ID], i.ID)
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	slices.SortFunc(instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return instances, nil
}

// clockOffset compares what an instance wrote to its latest heartbeat for a slot with
// when ZooKeeper took that in. It is nil if it has none there any more.
func (c *Client) clockOffset(ctx context.Context, slot, sid string) (*time.Duration, error) {
	data, stat, err := c.conn.Get(ctx, c.tree.Heartbeat(slot, sid))
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil //nolint:nilnil // it is not known
	}
	if err != nil {
		return nil, err
	}
	sent, err := zkrec.ParseBeat(data)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // a hand wrote it: it tells nothing
	}
	offset := sent.Sub(stat.Mtime)
	return &offset, nil
}

// Orders lists what operators have ordered, sorted by id, of instances that run
// and of those that do not. Errors: ErrDenied, ErrUnavailable.
func (c *Client) Orders(ctx context.Context) ([]Order, error) {
	var list []Order
	err := c.conn.Retry(ctx, func() error {
		orders, err := c.orders(ctx)
		list = list[:0]
		for sid, o := range orders {
			list = append(list, orderOf(sid, o))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", err)
	}
	slices.SortFunc(list, func(a, b Order) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	return list, nil
}

// counted is live with what each instance owns, by the owner records, and one slot
// of each that owns any.
func (c *Client) counted(ctx context.Context) (live map[string]Instance, slots map[string]string, err error) {
	if live, err = c.live(ctx); err != nil {
		return nil, nil, err
	}
	jobs, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	owned := make(map[string]int)
	slots = make(map[string]string)
	for _, job := range jobs {
		for _, slot := range append(job.Slots, job) {
			if slot.Owner != nil {
				owned[slot.Owner.InstanceID]++
				slots[slot.Owner.InstanceID] = slot.Name
			}
		}
	}
	for sid, instance := range live {
		instance.Owned = owned[sid]
		live[sid] = instance
	}
	return live, slots, nil
}

// live reads the running instances by id.
func (c *Client) live(ctx context.Context) (map[string]Instance, error) {
	names, _, err := c.conn.Children(ctx, c.tree.Instances())
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return nil, err
	}
	orders, err := c.orders(ctx)
	if err != nil {
		return nil, err
	}
	live := make(map[string]Instance, len(names))
	for _, sid := range names {
		data, _, err := c.conn.Get(ctx, c.tree.Instance(sid))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		record, err := zkrec.ParseInstance(data)
		if err != nil {
			record = zkrec.Instance{State: InstanceUnreadable} // it lives all the same
		}
		o, ordered := orders[sid]
		live[sid] = instanceOf(sid, record, o, ordered)
	}
	return live, nil
}

// instanceOf is an instance with the order that is there for it, if there is
// one.
func instanceOf(sid string, record zkrec.Instance, o zkrec.Order, ordered bool) Instance {
	instance := Instance{
		ID: sid, Incarnation: record.Incarnation, Host: record.Host, PID: record.PID,
		StartedAt: inUTC(record.StartedAt), Version: record.Version, Owned: record.Owned, MaxSlots: record.MaxSlots,
		Weight: max(1, record.Weight),
		State:  record.State, Withdrawn: record.Withdrawn, Guard: record.Guard,
	}
	if instance.Mode = "lease"; record.Mode != "" {
		instance.Mode, instance.Leader = record.Mode, !record.Standby && record.State == zkrec.InstanceActive
	}
	if ordered && o.Binds(record.Incarnation) {
		order := orderOf(sid, o)
		instance.Order = &order
		if instance.State == InstanceActive {
			instance.State = InstanceDraining // it will say so in a moment
		}
	}
	return instance
}

// orders reads all orders by id.
func (c *Client) orders(ctx context.Context) (map[string]zkrec.Order, error) {
	sids, _, err := c.conn.Children(ctx, c.tree.Orders())
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return nil, err
	}
	orders := make(map[string]zkrec.Order, len(sids))
	for _, sid := range sids {
		data, _, err := c.conn.Get(ctx, c.tree.Order(sid))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		orders[sid] = zkrec.ParseOrder(data)
	}
	return orders, nil
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The states of an instance. Only an active one takes jobs.
const (
	InstanceActive     = "active"
	InstanceDraining   = "draining"    // it hands its jobs over; those it still owns are running
	InstanceDrained    = "drained"     // it owns nothing until it is restarted or enabled
	InstanceDisabled   = "disabled"    // it owns nothing until it is enabled, even after restarts
	InstanceStandby    = "standby"     // latch mode: it owns nothing because it is not the leader
	InstanceWrongClock = "wrong_clock" // it owns nothing because its clock is wrong
	InstanceWarming    = "warming"     // it owns nothing yet: Config.StartupDelay
	InstanceStopping   = "stopping"    // it hands its jobs over and leaves
	InstanceUnreadable = "unreadable"  // its record may not be read, or someone edited it
	InstanceNone       = "none"        // no session holds its node: someone created it manually, and nothing runs
)

// Instance is one running instance of the group, unless its State is InstanceNone.
type Instance struct {
	ID          string    `json:"instance_id"`
	Incarnation string    `json:"incarnation"` // a new one at each start
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Version     string    `json:"version"`               // of the library
	Program     string    `json:"program,omitempty"`     // Config.Version, the program's
	Owned       int       `json:"owned"`                 // slots it owns, according to the owner records
	MaxSlots    int       `json:"max_slots"`             // maximum number of slots; 0 means no limit
	MaxRunning  int       `json:"max_running,omitempty"` // maximum number of runs in progress; 0 means no limit
	Weight      int       `json:"weight"`                // relative share of the slots
	State       string    `json:"state"`                 // InstanceActive ...
	// Reason explains InstanceUnreadable and InstanceNone.
	Reason string `json:"reason,omitempty"`
	Mode   string `json:"mode"`   // "lease" or "latch"
	Leader bool   `json:"leader"` // in latch mode: it owns every job
	// Order is the operator's order in force that keeps it from owning jobs, for itself or for its
	// host, or nil.
	Order *Order `json:"order,omitempty"`
	// JobOrders are the operators' orders that keep it from owning one job each, sorted by job.
	JobOrders []Order `json:"job_orders,omitempty"`
	// Labels are what jobs can require (Config.Labels). Address is where people reach it
	// (Config.Address); "" if it does not say.
	Labels  map[string]string `json:"labels,omitempty"`
	Address string            `json:"address,omitempty"`
	// Withdrawn means that its own program called Manager.Drain. That lasts until
	// the instance stops.
	Withdrawn bool   `json:"withdrawn"`
	Guard     string `json:"-"` // token of the guard that watches its process, or ""
	// ClockOffset is how far its clock is ahead of ZooKeeper's (negative: behind), give or
	// take ClockBound, as the instance itself has estimated it. Instances publish that if it is
	// 100 ms or more. Of others, Instances measures it from the latest sign of life, so
	// it is smaller by that write's latency, and ClockBound is 0. Nil if it is not known.
	// Leases do not depend on it, but ticks fire by the instance's clock.
	ClockOffset *time.Duration `json:"-"`
	ClockBound  time.Duration  `json:"-"`
	// SessionTimeout is granted by the server, and SessionAsked the longest that it has asked for, or
	// had. 0 if it does not say.
	SessionTimeout time.Duration `json:"-"`
	SessionAsked   time.Duration `json:"-"`
	// Zones is a fingerprint of its time zone database, "" if it does not say. Instances with
	// different ones have different ticks.
	Zones string `json:"-"`
	// Resolver means that it has a Config.Resolve.
	Resolver bool `json:"resolver,omitempty"`
	// Silent is for how long it has given no sign of life although it gives four per session timeout,
	// to within a second; 0 if that is less than half of a session timeout. Only Instances and
	// Instance tell.
	Silent time.Duration `json:"-"`

	place place
}

// closed reports whether the instance takes no jobs.
func (i Instance) closed() bool {
	switch i.State {
	case InstanceDraining, InstanceDrained, InstanceDisabled, InstanceStopping, InstanceStandby, InstanceWrongClock, InstanceWarming:
		return true
	}
	return false
}

// Order is an operator's order that keeps an instance, or every instance of a host, from owning
// jobs.
type Order struct {
	InstanceID string `json:"instance_id"` // empty: every instance of the Host
	Host       string `json:"host,omitempty"`
	Job        string `json:"job,omitempty"` // empty: every job
	// Incarnation is the start of the instance that drains; the order ends with
	// it. Empty means that the instance is disabled over restarts until it is
	// enabled.
	Incarnation string    `json:"incarnation,omitempty"`
	By          string    `json:"by"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at,omitzero"` // by the operator's clock; zero if the order was created manually
}

func orderOf(sid string, o zkrec.Order) Order {
	return Order{InstanceID: sid, Incarnation: o.Incarnation, By: o.By, Reason: o.Reason, At: zkrec.UTC(o.At)}
}

// Instances lists the running instances, and nodes that stand where theirs do (InstanceNone),
// sorted by id. One whose record may not be read is InstanceUnreadable. Errors: ErrDenied if
// they may not be listed, ErrUnavailable.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	return retried(ctx, c.conn, "list instances", func() ([]Instance, error) {
		all, err := c.counted(ctx)
		if err != nil {
			return nil, err
		}
		return c.withLives(ctx, all)
	})
}

// withLives lists instances, sorted by ID, with their latest signs of life.
func (m members) withLives(ctx context.Context, all map[string]Instance) ([]Instance, error) {
	instances := slices.SortedFunc(maps.Values(all), func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return instances, m.readLives(ctx, instances)
}

// readLives tells by the latest signs of life of instances how long ago those were, and, unless an
// instance has published it, how far its clock is ahead: it compares the time that it wrote there
// with the time of ZooKeeper's write.
func (m members) readLives(ctx context.Context, instances []Instance) error {
	var reads []zkconn.Read
	var of []*Instance
	for k := range instances {
		if i := &instances[k]; job.CheckNodeName(i.Incarnation) == nil { // otherwise the record was made manually
			of, reads = append(of, i), append(reads, zkconn.Read{Path: m.tree.Life(i.Incarnation)})
		}
	}
	results, err := m.readMany(ctx, reads)
	for k, r := range results {
		if errors.Is(r.Err, zkconn.ErrNoNode) || errors.Is(r.Err, ErrDenied) {
			continue // it is not known
		}
		if r.Err != nil {
			return r.Err
		}
		i := of[k]
		session := cmp.Or(time.Duration(i.place.record.SessionTimeout), defaultSessionTimeout)
		if silent := m.clock.now().now.Sub(r.Stat.Mtime); silent > session/2 {
			i.Silent = silent
		}
		if sent, err := zkrec.ParseBeat(r.Data); err == nil && i.ClockOffset == nil { // an edited one says nothing
			offset := sent.Sub(r.Stat.Mtime)
			i.ClockOffset = &offset
		}
	}
	return err
}

// Orders lists operators' orders, sorted by instance ID, including those for instances that are not
// running, and then those for one job, or for a host, sorted by job. One for an instance that may
// not be read binds every start of it; its Reason says so. Errors: ErrDenied if they may not be
// listed, ErrUnavailable.
func (c *Client) Orders(ctx context.Context) ([]Order, error) {
	return retried(ctx, c.conn, "list orders", func() ([]Order, error) {
		below, err := c.below(ctx, c.tree.Orders(), c.tree.Exclusions())
		if err != nil {
			return nil, err
		}
		return listedOrders(below[0], below[1]), cmp.Or(below[0].denied, below[1].denied)
	})
}

// listedOrders are orders as Orders lists them.
func listedOrders(orders, exclusions family) (list []Order) {
	all := ordersIn(orders.nodes)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, orderOf(id, all[id]))
	}
	return append(list, ordersOf(exclusionsIn(exclusions.nodes))...)
}

// counted is nodes with the number of slots that each instance owns, which lags behind in its own
// record.
func (m members) counted(ctx context.Context) (all map[string]Instance, err error) {
	if all, _, err = m.nodes(ctx); err != nil {
		return nil, err
	}
	jobs, err := m.children(ctx, m.tree.Root())
	if err != nil {
		return nil, err
	}
	owned := make(map[string]int)
	jobs = slices.DeleteFunc(jobs, func(name string) bool { return !zkrec.IsJob(name) })
	err = m.owners(ctx, jobs, func(_, sid string) { owned[sid]++ })
	for sid, instance := range all {
		instance.Owned = owned[sid]
		all[sid] = instance
	}
	if err == nil && len(all) > 0 {
		err = m.compare(ctx, all)
	}
	return all, err
}

// live reads the running instances by id.
func (m members) live(ctx context.Context) (map[string]Instance, error) {
	all, _, err := m.nodes(ctx)
	maps.DeleteFunc(all, isNone)
	return all, err
}

// isNone reports whether someone made the node manually, so that it is no instance.
func isNone(_ string, i Instance) bool { return i.State == InstanceNone }

// nodes reads what stands below the parent of the instances, and the orders that may be read.
func (m members) nodes(ctx context.Context) (all map[string]Instance, list []Order, err error) {
	below, err := m.below(ctx, m.rolls()...)
	if err != nil {
		return nil, nil, err
	}
	return m.nodesIn(below)
}

// rolls are the nodes below which instances and orders are.
func (m members) rolls() []string {
	return []string{m.tree.Orders(), m.tree.Exclusions(), m.tree.Instances()}
}

// nodesIn is nodes as the rolls were read.
func (m members) nodesIn(below []family) (all map[string]Instance, list []Order, err error) {
	orders, excluded := ordersIn(below[0].nodes), exclusionsIn(below[1].nodes) // who may not read them knows of none, as an instance
	all = make(map[string]Instance)
	for _, node := range below[2].nodes {
		record, err := zkrec.ParseInstance(node.data)
		state := record.State
		var reason string
		switch {
		case !node.stat.Ephemeral():
			record, state = zkrec.Instance{}, InstanceNone
			reason = m.tree.Instance(node.name) + " is held by no session, so it is not an instance's: delete it"
		case node.err != nil: // alive nevertheless
			state, reason = InstanceUnreadable, node.err.Error()
		case err != nil:
			state, reason = InstanceUnreadable, err.Error()
		}
		o, ordered := orders[node.name]
		record.State = state
		instance := instanceOf(node.name, record, o, ordered)
		instance.Reason = reason
		instance.setPlace(record, excluded)
		all[node.name] = instance
	}
	return all, listedOrders(below[0], below[1]), below[2].denied
}

// instanceOf returns an instance, with its order if that is in force.
func instanceOf(sid string, record zkrec.Instance, o zkrec.Order, ordered bool) Instance {
	instance := Instance{
		ID: sid, Incarnation: record.Incarnation, Host: record.Host, PID: record.PID,
		StartedAt: zkrec.UTC(record.StartedAt), Version: record.Version, Program: record.Program, Owned: record.Owned, MaxSlots: record.MaxSlots, MaxRunning: record.MaxRunning,
		Weight: max(1, record.Weight),
		State:  record.State, Withdrawn: record.Withdrawn, Guard: record.Guard,
		SessionTimeout: time.Duration(record.SessionTimeout), SessionAsked: time.Duration(max(record.SessionTimeout, record.SessionLongest)),
		Zones: record.Zones, Resolver: record.Resolves,
	}
	if record.ClockBound > 0 {
		offset := time.Duration(record.ClockOffset)
		instance.ClockOffset, instance.ClockBound = &offset, time.Duration(record.ClockBound)
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

// ordersIn parses all orders, by id.
func ordersIn(nodes []child) map[string]zkrec.Order {
	orders := make(map[string]zkrec.Order, len(nodes))
	for _, node := range nodes {
		order := zkrec.ParseOrder(node.data)
		if node.err != nil {
			order.Reason = node.err.Error()
		}
		orders[node.name] = order
	}
	return orders
}

// groupTime is the group's time, by which a change is judged. It sends requests once a minute.
func (m members) groupTime(ctx context.Context) (time.Time, error) {
	err := m.conn.Retry(ctx, func() error {
		if !m.clock.due() {
			return nil
		}
		_, err := m.judges(ctx)
		if errors.Is(err, ErrDenied) { // a job may be written without the right to read who lives
			err = m.compare(ctx, nil)
		}
		return err
	})
	return m.clock.now().now, err
}

// judges reads the running instances by id, and has the clock tell the group's time.
func (m members) judges(ctx context.Context) (live map[string]Instance, err error) {
	if live, err = m.live(ctx); err != nil {
		return nil, err
	}
	return live, m.compare(ctx, live)
}

// compare has the clock tell the group's time. If that seems to be wrong, it waits for the next
// sign of life, which tells: it may be these that have ceased.
func (m members) compare(ctx context.Context, live map[string]Instance) error {
	ctx, stop := m.conn.WhileOpen(ctx)
	defer stop()
	k := m.clock
	k.follow(clocksOf(live))
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-k.turn }()
	if !k.due() {
		return nil
	}
	k.looks()
	var reads []zkconn.Read
	var of []Instance
	for _, i := range live {
		if job.CheckNodeName(i.Incarnation) == nil { // otherwise the record was made manually
			of, reads = append(of, i), append(reads, zkconn.Read{Path: m.tree.Life(i.Incarnation)})
		}
	}
	for begun := time.Now(); ; {
		sent := k.reading()
		results, err := m.readMany(ctx, reads)
		answered := k.reading()
		if err != nil {
			return err
		}
		var beat zkconn.Stat
		session := defaultSessionTimeout
		for i, r := range results {
			if r.Err == nil && r.Stat.Mzxid > beat.Mzxid {
				beat, session = r.Stat, cmp.Or(time.Duration(of[i].place.record.SessionTimeout), defaultSessionTimeout)
			}
		}
		every := session / beatsPerSession
		if k.take(sent, answered, m.conn.Zxid(), beat, every) || m.conn.Stale() { // and no next one comes
			return nil
		}
		waited := time.Since(begun)
		if waited >= 2*every {
			k.mu.Lock()
			k.open, k.awaited = false, beat.Mzxid
			k.mu.Unlock()
			return nil
		}
		if end, limited := ctx.Deadline(); limited && waited >= end.Sub(begun)/2 {
			return nil
		}
		select {
		case <-time.After(every / 4):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// clocksOf lists the offsets that instances publish of their clocks.
func clocksOf(live map[string]Instance) map[string]offset.Peer {
	peers := make(map[string]offset.Peer, len(live))
	for sid, i := range live {
		if i.State != InstanceNone {
			peers[sid] = offset.Peer{Off: time.Duration(i.place.record.ClockOffset), Wrong: i.State == InstanceWrongClock}
		}
	}
	return peers
}

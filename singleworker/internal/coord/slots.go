package coord

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// do carries out one action of the protocol.
func (c *Coordinator) do(action lease.Action) {
	switch a := action.(type) {
	case lease.ReadSlot:
		c.readSlot(a)
	case lease.ReadGroup:
		c.readGroup(a)
	case lease.Take:
		c.takeSlot(a)
	case lease.SendBeats:
		c.sendBeats(a)
	case lease.Release:
		c.release(a)
	case lease.Yield:
		c.yield(a)
	case lease.Gained:
		c.gained(a)
	case lease.Renewed:
		c.cfg.Leases.Renew(a.Slot, a.Until)
	case lease.Lost:
		c.lost(a)
	}
}

// outcomeOf says what the protocol needs to know of a request's error.
func outcomeOf(err error) lease.Outcome {
	switch {
	case err == nil:
		return lease.Done
	case zkconn.IsUnknown(err):
		return lease.Unknown
	default:
		return lease.Refused
	}
}

func (c *Coordinator) readSlot(a lease.ReadSlot) {
	c.async("read slot", func(ctx context.Context) func() {
		rec, err := c.fetchSlot(ctx, string(a.Slot))
		return func() {
			outcome := lease.Done
			if err != nil {
				c.log.Debug("slot not read", "job", a.Slot, "err", err)
				outcome = lease.Unknown
			}
			if err == nil && !rec.Exists {
				c.repair(string(a.Slot))
			}
			c.step(lease.SlotRead{Slot: a.Slot, Outcome: outcome, Record: rec})
		}
	})
}

// tornReads is how often a slot is read again that changed while it was read.
const tornReads = 3

// fetchSlot reads an alive node with its children, as they were at one
// moment: record and heartbeat of an ownership come into being in one
// transaction, so the heartbeat's czxid is the record's mzxid. A heartbeat that
// a hand has made anew differs for good; it is taken as it is in the end.
func (c *Coordinator) fetchSlot(ctx context.Context, slot string) (rec lease.Record, err error) {
	for range tornReads {
		var whole bool
		if rec, whole, err = c.fetchSlotOnce(ctx, slot); err != nil || whole {
			break
		}
	}
	return rec, err
}

// fetchSlotOnce costs two reads in the common case of one child, which the
// record names, and one in that of none.
func (c *Coordinator) fetchSlotOnce(ctx context.Context, slot string) (rec lease.Record, whole bool, err error) {
	data, stat, err := c.conn.GetW(ctx, c.tree.Alive(slot))
	if errors.Is(err, zkconn.ErrNoNode) {
		return lease.Record{}, true, nil
	}
	if err != nil {
		return lease.Record{}, false, err
	}
	owner, err := zkrec.ParseOwner(data)
	if err != nil {
		c.log.Debug("owner record ignored", "job", slot, "err", err)
	}
	rec = lease.Record{
		Exists: true, Version: stat.Version, Mzxid: stat.Mzxid, Offer: owner.Offer,
		Owner: lease.Member{SID: owner.SID, Incarnation: owner.Incarnation},
	}
	names := []string{owner.SID}
	switch {
	case stat.NumChildren == 0:
		names = nil // in the common case of a free slot
	case stat.NumChildren != 1 || owner.SID == "":
		names, _, err = c.conn.Children(ctx, c.tree.Alive(slot))
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return rec, false, err
		}
	}
	whole = owner.SID == ""
	for _, sid := range names {
		beat, ok, err := c.conn.Exists(ctx, c.tree.Heartbeat(slot, sid))
		if err != nil {
			return rec, false, err
		}
		if ok {
			rec.Beats = append(rec.Beats, lease.Beat{SID: sid, Version: beat.Version, Mzxid: beat.Mzxid})
		}
		whole = whole || ok && sid == owner.SID && beat.Czxid == stat.Mzxid
	}
	return rec, whole && len(rec.Beats) == stat.NumChildren, nil
}

func (c *Coordinator) readGroup(a lease.ReadGroup) {
	attempt := c.session.attempt
	c.async("read group", func(ctx context.Context) func() {
		peers, orders, err := c.fetchGroup(ctx)
		return func() {
			outcome := lease.Done
			if err != nil {
				c.log.Debug("instances not read", "err", err)
				outcome = lease.Unknown
			} else if attempt == c.session.attempt && c.session.joined && !c.session.leaving &&
				peers[c.cfg.SID].Incarnation != c.cfg.Instance.Incarnation {
				c.ephemeralLost()
			}
			if err == nil {
				c.session.groupRead = attempt
				c.peers = peers
				c.ordered(orders)
			}
			c.step(lease.GroupRead{Asked: a.Asked, Outcome: outcome, Peers: peers})
		}
	})
}

func (c *Coordinator) fetchGroup(ctx context.Context) (map[string]lease.Peer, map[string]order, error) {
	var names []string
	var orders map[string]order
	var err, ordersErr error
	c.together(ctx, 2, func(ctx context.Context, i int) {
		if i == 0 {
			names, _, err = c.conn.ChildrenW(ctx, c.tree.Instances())
		} else {
			orders, ordersErr = c.fetchOrders(ctx)
		}
	})
	if err = errors.Join(err, ordersErr); err != nil {
		return nil, nil, err
	}
	peers := make(map[string]lease.Peer, len(names))
	for _, i := range c.readInstances(ctx, names) {
		switch {
		case errors.Is(i.err, zkconn.ErrNoNode):
			continue // gone meanwhile
		case errors.As(i.err, new(*zkconn.OpError)):
			return nil, nil, i.err
		}
		ordered, found := orders[i.sid]
		peers[i.sid] = lease.Peer{
			Incarnation: i.Incarnation,
			Opaque:      i.err != nil,
			Closed:      i.Closed() || found && ordered.Binds(i.Incarnation),
			MaxSlots:    i.MaxSlots,
			Weight:      i.Weight,
			Session:     time.Duration(i.SessionTimeout),
		}
	}
	return peers, orders, nil
}

// takeSlot adopts a free slot or takes one over, in one transaction.
func (c *Coordinator) takeSlot(a lease.Take) {
	slot := string(a.Slot)
	owner := zkrec.Owner{SID: c.cfg.SID, Incarnation: c.cfg.Instance.Incarnation}
	ops := []zkconn.Op{zkconn.SetOp(c.tree.Alive(slot), owner.Encode(), a.Version)}
	for _, b := range a.Remove {
		ops = append(ops, zkconn.DeleteOp(c.tree.Heartbeat(slot, b.SID), b.Version))
	}
	beat := zkrec.EncodeBeat(time.Now())
	ops = append(ops, zkconn.CreateOp(c.tree.Heartbeat(slot, c.cfg.SID), beat))
	c.async("take slot", func(ctx context.Context) func() {
		sentAt := c.cfg.Clock.Now()
		stats, err := c.conn.Multi(ctx, ops...)
		return func() {
			done := lease.TakeDone{Slot: a.Slot, Outcome: outcomeOf(err), SentAt: sentAt}
			if err == nil {
				done.Version, done.Mzxid = stats[0].Version, stats[0].Mzxid
			} else {
				c.log.Debug("slot not taken", "job", slot, "version", a.Version, "err", err)
			}
			c.step(done)
		}
	})
}

// sendBeats writes the heartbeats of all slots in as few transactions as
// possible.
func (c *Coordinator) sendBeats(a lease.SendBeats) {
	data := zkrec.EncodeBeat(time.Now())
	var slots []lease.Slot
	var groups [][]zkconn.Op
	for slot, version := range a.Beats {
		slots = append(slots, slot)
		groups = append(groups, []zkconn.Op{zkconn.SetOp(c.tree.Heartbeat(string(slot), c.cfg.SID), data, version)})
	}
	c.applyBatches(groups, func(i int, r result) {
		done := lease.BeatDone{Slot: slots[i], Outcome: outcomeOf(r.err), SentAt: r.sentAt}
		if r.err == nil {
			done.Version, done.Mzxid = r.stats[0].Version, r.stats[0].Mzxid
		}
		c.step(done)
	})
}

func (c *Coordinator) release(a lease.Release) {
	slot := string(a.Slot)
	record := zkrec.Owner{Offer: a.Offer}
	ops := []zkconn.Op{zkconn.SetOp(c.tree.Alive(slot), record.Encode(), a.Version)}
	if a.Beat {
		ops = append(ops, zkconn.DeleteOp(c.tree.Heartbeat(slot, c.cfg.SID), zkconn.AnyVersion))
	}
	c.async("release slot", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, ops...)
		return func() {
			c.log.Debug("slot released", "job", slot, "offer", a.Offer, "err", err)
			c.step(lease.ReleaseDone{Slot: a.Slot, Outcome: outcomeOf(err)})
		}
	})
}

func (c *Coordinator) yield(a lease.Yield) {
	path := c.tree.Heartbeat(string(a.Slot), a.Beat.SID)
	c.async("yield slot", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, zkconn.DeleteOp(path, a.Beat.Version))
		return func() {
			c.log.Debug("heartbeat without an owner record removed", "path", path, "err", err)
			c.step(lease.YieldDone{Slot: a.Slot})
		}
	})
}

// gained opens the right to run the job and, when its records are known, tells
// the runner.
func (c *Coordinator) gained(a lease.Gained) {
	slot := string(a.Slot)
	own := &ownership{
		token: a.Token, version: a.Version, since: time.Now(),
		lease: c.cfg.Leases.Open(a.Slot, a.Token, a.Until),
	}
	c.owned[slot] = own
	c.log.Info("job owned", "job", slot, "token", a.Token)
	c.load(slot, own)
	c.readRequests(slot)
	if j := c.jobOf(slot); j != nil {
		c.keep(j)
	}
}

// load reads the record of an owned slot. What cannot be read now, the next sync tries again:
// a hand may make it readable.
func (c *Coordinator) load(slot string, own *ownership) {
	if own.loaded || own.loading {
		return
	}
	own.loading = true
	c.loadTick(slot, func(record zkrec.Tick, err error) {
		own.loading = false
		switch {
		case c.owned[slot] != own:
		case err == nil:
			own.record, own.loaded = record, true
			c.tellRunner(slot)
		case !own.unreadable:
			own.unreadable = true
			c.log.Error("job cannot run: its tick record is not readable", "job", slot, "err", err)
		}
	})
}

// tellRunner passes on an owned slot whose records are known.
func (c *Coordinator) tellRunner(slot string) {
	own, j := c.owned[slot], c.jobOf(slot)
	if own == nil || j == nil || !own.loaded || !own.requests.known || !j.eligible {
		return
	}
	own.told = true
	c.cfg.Runner.Own(Ownership{
		Slot: slot, Spec: j.spec, SpecVersion: j.version, Lease: own.lease, Since: own.since,
		Record: own.record, Requests: own.requests.readable(),
	})
}

func (c *Coordinator) lost(a lease.Lost) {
	slot := string(a.Slot)
	cause := map[lease.Reason]error{
		lease.Taken: leases.ErrLost, lease.Vanished: ErrCanceled, lease.Given: ErrHandedOver,
	}[a.Reason]
	j := c.jobOf(slot)
	if a.Reason == lease.Vanished && j != nil && !slices.Contains(j.slots, slot) {
		cause = ErrRetired
	}
	c.log.Info("job no longer owned", "job", slot, "reason", cause)
	c.cfg.Leases.Close(a.Slot, cause)
	delete(c.owned, slot)
	c.cfg.Runner.Disown(slot, cause)
	if t := c.ticks[slot]; t != nil {
		// The nodes are others' to change, or those of a job that is submitted
		// anew, whose versions may by chance be the same.
		t.known = false
		c.advance(t) // its claims are refused now
	}
	if j != nil {
		c.keep(j)
	}
}

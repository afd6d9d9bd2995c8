package coord

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
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
		c.cfg.Book.Renew(a.Slot, a.Until)
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

// fetchSlot reads an alive node with its children. The common case, one
// child that the record names, costs two reads.
func (c *Coordinator) fetchSlot(ctx context.Context, job string) (lease.Record, error) {
	data, stat, err := c.conn.GetW(ctx, c.tree.Alive(job))
	if errors.Is(err, zkconn.ErrNoNode) {
		return lease.Record{}, nil
	}
	if err != nil {
		return lease.Record{}, err
	}
	owner, err := zkrec.ParseOwner(data)
	if err != nil {
		c.log.Debug("owner record ignored", "job", job, "err", err)
	}
	rec := lease.Record{
		Exists: true, Version: stat.Version, Mzxid: stat.Mzxid, Offer: owner.Offer,
		Owner: lease.Member{SID: owner.SID, Incarnation: owner.Incarnation},
	}
	if stat.NumChildren == 0 {
		return rec, nil
	}
	if stat.NumChildren == 1 && owner.SID != "" {
		rec.Beats, err = c.fetchBeats(ctx, job, []string{owner.SID})
		if err != nil || len(rec.Beats) == 1 {
			return rec, err
		}
	}
	names, _, err := c.conn.Children(ctx, c.tree.Alive(job))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return rec, err
	}
	rec.Beats, err = c.fetchBeats(ctx, job, names)
	return rec, err
}

func (c *Coordinator) fetchBeats(ctx context.Context, job string, sids []string) ([]lease.Beat, error) {
	var beats []lease.Beat
	for _, sid := range sids {
		stat, ok, err := c.conn.Exists(ctx, c.tree.Heartbeat(job, sid))
		if err != nil {
			return nil, err
		}
		if ok {
			beats = append(beats, lease.Beat{SID: sid, Version: stat.Version})
		}
	}
	return beats, nil
}

func (c *Coordinator) readGroup(a lease.ReadGroup) {
	attempt := c.session.attempt
	c.async("read group", func(ctx context.Context) func() {
		peers, err := c.fetchGroup(ctx)
		return func() {
			outcome := lease.Done
			if err != nil {
				c.log.Debug("instances not read", "err", err)
				outcome = lease.Unknown
			} else if attempt == c.session.attempt && c.session.joined &&
				peers[c.cfg.SID].Incarnation != c.cfg.Instance.Incarnation {
				c.ephemeralLost()
			}
			c.step(lease.GroupRead{Asked: a.Asked, Outcome: outcome, Peers: peers})
		}
	})
}

func (c *Coordinator) fetchGroup(ctx context.Context) (map[string]lease.Peer, error) {
	names, _, err := c.conn.ChildrenW(ctx, c.tree.Instances())
	if err != nil {
		return nil, err
	}
	peers := make(map[string]lease.Peer, len(names))
	for _, sid := range names {
		record, _, err := c.readInstance(ctx, c.tree.Instance(sid))
		switch {
		case errors.Is(err, zkconn.ErrNoNode):
			continue // gone meanwhile
		case errors.As(err, new(*zkconn.OpError)):
			return nil, err
		}
		peers[sid] = lease.Peer{
			Incarnation: record.Incarnation,
			Opaque:      err != nil,
			Closed:      record.State != zkrec.InstanceActive,
			MaxSlots:    record.MaxSlots,
		}
	}
	return peers, nil
}

// takeSlot adopts a free slot or takes one over, in one transaction.
func (c *Coordinator) takeSlot(a lease.Take) {
	job := string(a.Slot)
	owner := zkrec.Owner{SID: c.cfg.SID, Incarnation: c.cfg.Instance.Incarnation}
	ops := []zkconn.Op{zkconn.SetOp(c.tree.Alive(job), owner.Encode(), a.Version)}
	for _, b := range a.Remove {
		ops = append(ops, zkconn.DeleteOp(c.tree.Heartbeat(job, b.SID), b.Version))
	}
	beat := zkrec.EncodeBeat(time.Now())
	ops = append(ops, zkconn.CreateOp(c.tree.Heartbeat(job, c.cfg.SID), beat))
	c.async("take slot", func(ctx context.Context) func() {
		sentAt := c.cfg.Clock.Now()
		stats, err := c.conn.Multi(ctx, ops...)
		return func() {
			done := lease.TakeDone{Slot: a.Slot, Outcome: outcomeOf(err), SentAt: sentAt}
			if err == nil {
				done.Version, done.Mzxid = stats[0].Version, stats[0].Mzxid
			} else {
				c.log.Debug("slot not taken", "job", job, "version", a.Version, "err", err)
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
			done.Version = r.stats[0].Version
		}
		c.step(done)
	})
}

func (c *Coordinator) release(a lease.Release) {
	job := string(a.Slot)
	record := zkrec.Owner{Offer: a.Offer}
	ops := []zkconn.Op{zkconn.SetOp(c.tree.Alive(job), record.Encode(), a.Version)}
	if a.Beat {
		ops = append(ops, zkconn.DeleteOp(c.tree.Heartbeat(job, c.cfg.SID), zkconn.AnyVersion))
	}
	c.async("release slot", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, ops...)
		return func() {
			c.log.Debug("slot released", "job", job, "offer", a.Offer, "err", err)
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

// gained opens the right to run the job and, when its last claim is known,
// tells the runner.
func (c *Coordinator) gained(a lease.Gained) {
	name := string(a.Slot)
	own := &ownership{
		token: a.Token, version: a.Version,
		grant: c.cfg.Book.Open(a.Slot, a.Token, a.Until),
	}
	c.owned[name] = own
	c.log.Info("job owned", "job", name, "token", a.Token)
	c.loadTick(name, func(last zkrec.Tick, err error) {
		if c.owned[name] != own {
			return
		}
		if err != nil {
			c.log.Error("job cannot run: its tick record is not readable", "job", name, "err", err)
			return
		}
		own.last, own.ready = last, true
		c.tellRunner(name)
	})
}

// tellRunner passes on an owned job whose spec and last claim are known.
func (c *Coordinator) tellRunner(name string) {
	own, j := c.owned[name], c.jobs[name]
	if own == nil || j == nil || !own.ready || !j.eligible {
		return
	}
	c.cfg.Runner.Own(Ownership{Job: name, Spec: j.spec, Grant: own.grant, Last: own.last})
}

func (c *Coordinator) lost(a lease.Lost) {
	name := string(a.Slot)
	cause := map[lease.Reason]error{
		lease.Taken: grant.ErrLost, lease.Vanished: ErrCanceled, lease.Given: ErrHandedOver,
	}[a.Reason]
	c.log.Info("job no longer owned", "job", name, "reason", cause)
	c.cfg.Book.Close(a.Slot, cause)
	delete(c.owned, name)
	c.cfg.Runner.Disown(name, cause)
	if t := c.ticks[name]; t != nil {
		c.advance(t) // its claims are refused now
	}
}

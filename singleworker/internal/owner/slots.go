package owner

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func (o *Owner) readSlot(a lease.ReadSlot) {
	o.loop.Async("read slot", func(ctx context.Context) func() {
		path := o.loop.Tree.Alive(string(a.Slot))
		var rec lease.Record
		var err error
		if a.Sync {
			err = o.loop.Conn.Sync(ctx, path)
		}
		if err == nil {
			rec, err = o.fetchSlot(ctx, string(a.Slot))
		}
		if err != nil && !zkconn.IsUnknown(err) {
			o.loop.WaitToAskAgain(ctx)
		}
		return func() {
			o.catalog.Report(string(a.Slot), session.ReadError(path, err), path)
			outcome := lease.Done
			if err != nil {
				o.loop.Log.Debug("slot not read", "job", a.Slot, "err", err)
				outcome = lease.Unknown
			}
			if err == nil && !rec.Exists {
				o.catalog.Repair(string(a.Slot))
			}
			o.Step(lease.SlotRead{Slot: a.Slot, Outcome: outcome, Record: rec})
		}
	})
}

// tornReads is how often a slot is read again that changed while it was read.
const tornReads = 3

// fetchSlot reads an alive node with its children, as they were at one moment. Record and heartbeat of
// an ownership are created in one transaction, so the heartbeat's czxid is the record's mzxid. A
// heartbeat that someone else recreated never matches; it is accepted as it is in the end.
func (o *Owner) fetchSlot(ctx context.Context, slot string) (rec lease.Record, err error) {
	for range tornReads {
		var whole bool
		if rec, whole, err = o.fetchSlotOnce(ctx, slot); err != nil || whole {
			break
		}
	}
	return rec, err
}

// fetchSlotOnce costs two reads in the common case of one child, which the record names, and one if
// the slot has no child.
func (o *Owner) fetchSlotOnce(ctx context.Context, slot string) (rec lease.Record, whole bool, err error) {
	conn, tree := o.loop.Conn, o.loop.Tree
	data, stat, err := conn.GetW(ctx, tree.Alive(slot))
	if errors.Is(err, zkconn.ErrNoNode) {
		return lease.Record{}, true, nil
	}
	if err != nil {
		return lease.Record{}, false, err
	}
	owner, err := zkrec.ParseOwner(data)
	if err != nil {
		o.loop.Log.Debug("owner record ignored", "job", slot, "err", err)
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
		names, _, err = conn.Children(ctx, tree.Alive(slot))
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return rec, false, err
		}
	}
	ofOwner, err := o.fetchBeats(ctx, &rec, slot, names)
	if err == nil && len(names) == 1 && len(rec.Beats) == 0 {
		// The one heartbeat is not the named owner's: someone edited the record.
		if names, _, err = conn.Children(ctx, tree.Alive(slot)); err == nil {
			ofOwner, err = o.fetchBeats(ctx, &rec, slot, names)
		}
	}
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return rec, false, err
	}
	whole = owner.SID == "" || ofOwner.Czxid == stat.Mzxid
	return rec, whole && len(rec.Beats) == stat.NumChildren, nil
}

// fetchBeats adds the heartbeats of some instances to rec, and returns the node of its owner's.
func (o *Owner) fetchBeats(
	ctx context.Context, rec *lease.Record, slot string, sids []string,
) (ofOwner zkconn.Stat, err error) {
	for _, sid := range sids {
		beat, ok, err := o.loop.Conn.Exists(ctx, o.loop.Tree.Heartbeat(slot, sid))
		if err != nil {
			return ofOwner, err
		}
		if ok {
			rec.Beats = append(rec.Beats, lease.Beat{SID: sid, Version: beat.Version, Mzxid: beat.Mzxid})
		}
		if ok && sid == rec.Owner.SID {
			ofOwner = beat
		}
	}
	return ofOwner, nil
}

// take adopts a free slot, or takes one over, in one transaction.
func (o *Owner) take(a lease.Take) {
	slot, tree := string(a.Slot), o.loop.Tree
	self := o.member.Self()
	record := zkrec.Owner{SID: self.SID, Incarnation: self.Incarnation}
	ops := []zkconn.Op{zkconn.SetOp(tree.Alive(slot), record.Encode(), a.Version)}
	for _, b := range a.Remove {
		ops = append(ops, zkconn.DeleteOp(tree.Heartbeat(slot, b.SID), b.Version))
	}
	ops = append(ops, zkconn.CreateOp(tree.Heartbeat(slot, self.SID), zkrec.EncodeBeat(o.loop.Clock.Wall())))
	o.loop.Write(session.Others, ops, func(r session.Result) {
		done := lease.TakeDone{Slot: a.Slot, Outcome: outcomeOf(r.Err), SentAt: r.SentAt}
		if r.Err == nil {
			done.Version, done.Mzxid = r.Stats[0].Version, r.Stats[0].Mzxid
		} else {
			o.loop.Log.Debug("slot not taken", "job", slot, "version", a.Version, "err", r.Err)
		}
		o.Step(done)
	})
}

// sendBeats writes the heartbeats of all slots in as few transactions as possible.
func (o *Owner) sendBeats(a lease.SendBeats) {
	data := zkrec.EncodeBeat(o.loop.Clock.Wall())
	slots := make([]lease.Slot, 0, len(a.Beats))
	groups := make([][]zkconn.Op, 0, len(a.Beats))
	for slot, version := range a.Beats {
		slots = append(slots, slot)
		path := o.loop.Tree.Heartbeat(string(slot), o.member.ID())
		groups = append(groups, []zkconn.Op{zkconn.SetOp(path, data, version)})
	}
	o.loop.WriteAll(session.Beats, groups, func(i int, r session.Result) {
		done := lease.BeatDone{Slot: slots[i], Outcome: outcomeOf(r.Err), SentAt: r.SentAt}
		if r.Err == nil {
			done.Version, done.Mzxid = r.Stats[0].Version, r.Stats[0].Mzxid
		}
		o.Step(done)
	})
}

func (o *Owner) release(a lease.Release) {
	slot, tree := string(a.Slot), o.loop.Tree
	record := zkrec.Owner{Offer: a.Offer}
	ops := []zkconn.Op{zkconn.SetOp(tree.Alive(slot), record.Encode(), a.Version)}
	if a.Beat {
		ops = append(ops, zkconn.DeleteOp(tree.Heartbeat(slot, o.member.ID()), zkconn.AnyVersion))
	}
	o.loop.Write(session.Others, ops, func(r session.Result) {
		if errors.Is(r.Err, zkconn.ErrNotEmpty) { // someone created a node below the heartbeat, which stays
			o.loop.Write(session.Others, ops[:1], func(r session.Result) { o.released(a, r.Err) })
			return
		}
		o.released(a, r.Err)
	})
}

func (o *Owner) released(a lease.Release, err error) {
	o.loop.Log.Debug("slot released", "job", a.Slot, "offer", a.Offer, "err", err)
	o.answer(lease.ReleaseDone{Slot: a.Slot, Outcome: outcomeOf(err)}, err)
}

func (o *Owner) yield(a lease.Yield) {
	path := o.loop.Tree.Heartbeat(string(a.Slot), a.Beat.SID)
	o.loop.Write(session.Others, []zkconn.Op{zkconn.DeleteOp(path, a.Beat.Version)}, func(r session.Result) {
		o.loop.Log.Debug("heartbeat without an owner record removed", "path", path, "err", r.Err)
		o.answer(lease.YieldDone{Slot: a.Slot}, r.Err)
	})
}

// answer tells the protocol the outcome of a write. It waits first if the write was refused although nothing
// has changed: what is asked for again as soon as it is answered would be refused again.
func (o *Owner) answer(ev lease.Event, err error) {
	changed := errors.Is(err, zkconn.ErrBadVersion) || errors.Is(err, zkconn.ErrNoNode) || errors.Is(err, zkconn.ErrNodeExists)
	if err == nil || changed || zkconn.IsUnknown(err) {
		o.Step(ev)
		return
	}
	o.loop.Async("wait", func(ctx context.Context) func() {
		o.loop.WaitToAskAgain(ctx)
		return func() { o.Step(ev) }
	})
}

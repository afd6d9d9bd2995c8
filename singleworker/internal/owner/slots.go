package owner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// take adopts a free slot, or takes one over, in one transaction.
func (o *Owner) take(a lease.Take) {
	if a.Overdue {
		o.relieve(a)
		return
	}
	o.loop.Write(session.Claims, o.takeOps(a), func(r session.Result) {
		if left := r.Refused - 1; errors.Is(r.Err, zkconn.ErrNotEmpty) && left >= 0 && left < len(a.Remove) {
			// Someone created a node below that heartbeat, which stays. Whoever it is of claims nothing
			// by it, for the owner record names another.
			a.Remove = slices.Delete(slices.Clone(a.Remove), left, left+1)
			o.take(a)
			return
		}
		o.taken(a, r)
	})
}

// takeOps makes this incarnation the owner; the first of them sets the owner record.
func (o *Owner) takeOps(a lease.Take) []zkconn.Op {
	slot, tree := string(a.Slot), o.loop.Tree
	self := o.member.Self()
	record := zkrec.Owner{SID: self.SID, Incarnation: self.Incarnation, Relieved: zkrec.Member(a.Relieves)}
	ops := []zkconn.Op{zkconn.SetOp(tree.Alive(slot), record.Encode(), a.Version)}
	for _, b := range a.Remove {
		ops = append(ops, zkconn.DeleteOp(tree.Heartbeat(slot, b.SID), b.Version))
	}
	return append(ops, zkconn.CreateOp(tree.Heartbeat(slot, self.SID), zkrec.EncodeBeat(o.loop.Clock.Wall())))
}

func (o *Owner) taken(a lease.Take, r session.Result) {
	done := lease.TakeDone{Slot: a.Slot, Outcome: outcomeOf(r.Err), SentAt: r.SentAt}
	if r.Err == nil {
		done.Version, done.Mzxid = r.Stats[0].Version, r.Stats[0].Mzxid
		o.origins[a.Slot] = originOf(a, o.machine)
		if silent, had := silence(a, o.machine.Owner(a.Slot), r.Stats[0]); had {
			o.loop.Tell(TakenOver{silent})
		}
	} else {
		o.loop.Log.Debug("slot not taken", "job", a.Slot, "version", a.Version, "err", r.Err)
	}
	o.Step(done)
}

// silence is for how long the former owner of a slot had sent no heartbeat for it when it was
// taken; not ok if it had none, or the slot had no owner.
func silence(a lease.Take, former string, taken zkconn.Stat) (silent time.Duration, ok bool) {
	i := slices.IndexFunc(a.Remove, func(b lease.Beat) bool { return b.SID == former })
	if i < 0 {
		return 0, false
	}
	ms := int32(beatAt(taken) - a.Remove[i].At)
	return max(time.Duration(ms)*time.Millisecond, 0), true // the servers' clock may have been set back
}

// beatAt is when a node was last written, as a lease.Beat has it.
func beatAt(stat zkconn.Stat) uint32 { return uint32(stat.Mtime.UnixMilli()) }

// originOf tells how a slot comes to be owned, by the protocol's state when it was taken.
func originOf(a lease.Take, before *lease.Machine) Origin {
	switch {
	case a.Overdue:
		return Overdue
	case before.Owner(a.Slot) != "":
		return Died
	case before.Offered(a.Slot):
		return Offered
	}
	return Free
}

func (o *Owner) release(a lease.Release) {
	slot, tree := string(a.Slot), o.loop.Tree
	record := zkrec.Owner{Offer: a.Offer}
	ops := []zkconn.Op{zkconn.SetOp(tree.Alive(slot), record.Encode(), a.Version)}
	if a.Beat {
		ops = append(ops, zkconn.DeleteOp(tree.Heartbeat(slot, o.member.ID()), zkconn.AnyVersion))
	}
	o.loop.Write(session.Claims, ops, func(r session.Result) {
		if errors.Is(r.Err, zkconn.ErrNotEmpty) { // someone created a node below the heartbeat, which stays
			o.loop.Write(session.Claims, ops[:1], func(r session.Result) { o.released(a, r.Err) })
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

// answer tells the protocol the outcome of a write. It waits first if the write was refused
// although nothing has changed: a repetition right after the answer would be refused again.
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

package owner

import (
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// errNotOverdue is why a slot's owner is not relieved after all.
var errNotOverdue = errors.New("nothing is overdue")

// Deputy says whether, and after how many others, this instance is to relieve the slot's owner, and
// who that is.
func (o *Owner) Deputy(slot string) (owner string, rank int, is bool) {
	id := lease.Slot(slot)
	rank, is = o.machine.Deputy(o.loop.Clock.Now(), id)
	return o.machine.Owner(id), rank, is
}

// relief is a Take by rule (c) of the ownership protocol: from an owner that may live, of a slot of
// which no run is open.
//
// It rests on the tick record, whose version the transaction checks. Versions start over when a job
// is deleted and submitted again, so the instance holds a node below the tick node while it reads
// and writes: with a child, the tick node cannot be deleted. The same is done for late results.
type relief struct {
	*Owner

	take  lease.Take
	slot  string
	from  string // its owner
	proof string // the node below the tick node
}

func (o *Owner) relieve(a lease.Take) {
	slot := string(a.Slot)
	r := relief{o, a, slot, o.machine.Owner(a.Slot), o.loop.Tree.Late(slot, o.member.Self().Incarnation)}
	o.loop.Write(session.Claims, []zkconn.Op{zkconn.CreateEphemeralOp(r.proof, nil)}, func(made session.Result) {
		if made.Err != nil && !errors.Is(made.Err, zkconn.ErrNodeExists) { // by an earlier try whose answer was lost
			r.refuse(made.Err)
			return
		}
		ReadManual(o.loop, slot, func(requests []ticks.Request, err error) {
			if err != nil {
				o.loop.Log.Debug("requests not read", "job", slot, "err", err) // a tick may be due
			}
			r.read(requests)
		})
	})
}

func (r relief) read(requests []ticks.Request) {
	tree := r.loop.Tree
	reads := []zkconn.Read{
		{Path: tree.Alive(r.slot)}, {Path: tree.Heartbeat(r.slot, r.from)}, {Path: tree.Tick(r.slot)}, {Path: r.proof},
	}
	const own = 4 // what follows is of the slots for which this one waits
	parse := func([]zkconn.ReadResult) *ticks.Gate { return nil }
	if job := r.catalog.JobOf(r.slot); job != nil {
		var more []zkconn.Read
		more, parse = job.ReadGate(tree, r.slot)
		reads = append(reads, more...)
	}
	r.loop.Read(reads, func(results []zkconn.ReadResult) {
		alive, beat, tick, proof := results[0], results[1], results[2], results[3]
		gate := parse(results[own:])
		if err := errors.Join(alive.Err, beat.Err, tick.Err, proof.Err, r.check(alive.Stat, tick, gate, requests, proof.Stat.Ctime)); err != nil {
			r.drop()
			r.refuse(err)
			return
		}
		r.take.Remove = []lease.Beat{{SID: r.from, Version: beat.Stat.Version, At: beatAt(beat.Stat)}}
		r.write(tick.Stat.Version)
	})
}

// check verifies that the owner record is the one that the protocol has read, and that a run is due
// when the proof was created, by ZooKeeper's clock.
func (r relief) check(alive zkconn.Stat, tick zkconn.ReadResult, gate *ticks.Gate, requests []ticks.Request, created time.Time) error {
	record, err := zkrec.ParseTick(tick.Data, tick.Stat.Mtime)
	if err != nil {
		return err
	}
	clock := r.member.Clock
	grace, held := r.grace+clock.Behind(r.from), created.Sub(alive.Mtime) // less than nothing: ZooKeeper's clock was set
	job, deadline := r.catalog.JobOf(r.slot), clock.OfServer(created).Add(-grace)
	switch {
	case alive.Mzxid != r.take.Mzxid, alive.NumChildren != 1: // there is a heartbeat beside the owner's
	case held >= 0 && held < grace: // it has only just become the owner
	case job != nil && job.Valid() && !ticks.Unclaimed(job.Ticks.Of(r.slot, gate), record, requests, deadline).IsZero():
		return nil
	}
	return errNotOverdue
}

// write makes the transaction: the operations of any other takeover, the proof, and a check of the
// job, by which the run is due.
func (r relief) write(version int32) {
	job := r.catalog.JobOf(r.slot) // checked in this turn
	ops := append(r.takeOps(r.take), zkconn.CheckOp(r.loop.Tree.Tick(r.slot), version), zkconn.DeleteOp(r.proof, zkconn.AnyVersion))
	judged := len(ops)
	ops = append(ops, VersionOps(r.loop.Tree, job.Name, job.Version)...)
	r.loop.Write(session.Claims, ops, func(result session.Result) {
		if result.Err != nil {
			r.drop()
		}
		if result.Refused >= judged {
			r.catalog.Named.Outdated(job)
		}
		r.taken(r.take, result)
	})
}

// refuse tells the protocol that nothing was written.
func (r relief) refuse(err error) {
	r.loop.Log.Debug("owner not relieved", "job", r.slot, "err", err)
	r.Step(lease.TakeDone{Slot: r.take.Slot, Outcome: lease.Refused})
}

// drop deletes the proof. It ends with the session if that fails.
func (r relief) drop() {
	r.loop.Write(session.Others, []zkconn.Op{zkconn.DeleteOp(r.proof, zkconn.AnyVersion)}, func(result session.Result) {
		if result.Err != nil && !errors.Is(result.Err, zkconn.ErrNoNode) {
			r.loop.Log.Debug("node not deleted; it ends with the session", "path", r.proof, "err", result.Err)
		}
	})
}

package owner

import (
	"errors"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Pulse writes the signs that this instance lives: heartbeats, claims among them, and its sign of
// life.
type Pulse struct {
	owner  *Owner
	claims map[string]int        // how many are under way, by slot
	takes  map[string]lease.Take // what waits for the last of them
}

// Claiming tells the protocol that a claim of the slot is about to be sent, which is a heartbeat.
func (p *Pulse) Claiming(slot string) {
	p.claims[slot]++
	p.owner.Step(lease.Claiming{Slot: lease.Slot(slot)})
}

// take takes a slot when no claim of it is under way. A claim of a former ownership, which is sent
// again without another one that was refused, must not find the next ownership: after the tree was
// emptied, both may have the same versions.
func (p *Pulse) take(a lease.Take) {
	if p.claims[string(a.Slot)] > 0 {
		p.takes[string(a.Slot)] = a
		return
	}
	p.owner.take(a)
}

// Claimed tells the protocol the outcome of the claim. When it returns, the lease is renewed under
// which the run may begin.
func (p *Pulse) Claimed(slot string, r session.Result) {
	done := lease.Claimed{Slot: lease.Slot(slot), Outcome: outcomeOf(r.Err), SentAt: r.SentAt}
	if r.Err == nil {
		done.Version, done.Mzxid = r.Stats[heartbeatAt].Version, r.Stats[heartbeatAt].Mzxid
	}
	p.owner.Step(done)
	if p.claims[slot]--; p.claims[slot] > 0 {
		return
	}
	delete(p.claims, slot)
	if take, waits := p.takes[slot]; waits {
		delete(p.takes, slot)
		p.owner.take(take)
	}
}

// Renew writes the heartbeat of a slot that this instance owns, and then calls done: a claim whose
// answer was lost may be too old for its run to begin.
func (p *Pulse) Renew(slot string, guard Guard, done func()) {
	p.Claiming(slot)
	p.owner.loop.Write(session.Claims, []zkconn.Op{guard.Ops[0], p.beatOp(slot)}, func(r session.Result) {
		p.Claimed(slot, r)
		done()
	})
}

// beatOp writes the heartbeat of a slot, whatever its version.
func (p *Pulse) beatOp(slot string) zkconn.Op {
	return zkconn.SetOp(p.owner.loop.Tree.Heartbeat(slot, p.owner.member.ID()), zkrec.EncodeBeat(p.owner.loop.Clock.Wall()), zkconn.AnyVersion)
}

// send writes the sign of life, and heartbeats of slots in as few transactions as possible.
func (p *Pulse) send(a lease.SendBeats) {
	data := zkrec.EncodeBeat(p.owner.loop.Clock.Wall())
	p.writeLife(data)
	slots := make([]lease.Slot, 0, len(a.Beats))
	groups := make([][]zkconn.Op, 0, len(a.Beats))
	for _, slot := range slices.Sorted(maps.Keys(a.Beats)) {
		slots = append(slots, slot)
		path := p.owner.loop.Tree.Heartbeat(string(slot), p.owner.member.ID())
		groups = append(groups, []zkconn.Op{zkconn.SetOp(path, data, a.Beats[slot])})
	}
	p.owner.loop.WriteAll(session.Beats, groups, func(i int, r session.Result) {
		done := lease.BeatDone{Slot: slots[i], Outcome: outcomeOf(r.Err), SentAt: r.SentAt}
		if r.Err == nil {
			done.Version, done.Mzxid = r.Stats[0].Version, r.Stats[0].Mzxid
		}
		p.owner.Step(done)
	})
}

// writeLife writes the sign of life. The session's first one creates it.
func (p *Pulse) writeLife(data []byte) {
	path := p.owner.loop.Tree.Life(p.owner.member.Self().Incarnation)
	failed := func(r session.Result) {
		if r.Err != nil && !zkconn.IsUnknown(r.Err) { // it is written again soon, and without it the heartbeats tell
			p.owner.loop.Log.Debug("sign of life not written", "path", path, "err", r.Err)
		}
	}
	p.owner.loop.Write(session.Beats, []zkconn.Op{zkconn.SetOp(path, data, zkconn.AnyVersion)}, func(r session.Result) {
		if !errors.Is(r.Err, zkconn.ErrNoNode) {
			failed(r)
			return
		}
		p.owner.loop.Write(session.Beats, []zkconn.Op{zkconn.CreateEphemeralOp(path, data)}, failed)
	})
}

package owner

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Why a guard refuses a transaction, besides ticks.ErrSpecChanged.
var (
	// ErrNotOwner is returned when the slot is not, or no longer, owned under the token.
	ErrNotOwner = errors.New("not the owner")
	// ErrNotLeader is returned in latch mode when this instance does not lead.
	ErrNotLeader = errors.New("not the leader")
)

// Guard has the checks of a transaction that only a slot's owner may make. Put Ops first in it.
type Guard struct {
	Ops     []zkconn.Op
	reasons []error // by index of Ops: why the transaction is refused there
	named   int     // from where on Ops check the nodes that the job's spec names
}

func (g *Guard) add(reason error, ops ...zkconn.Op) {
	for _, op := range ops {
		g.Ops, g.reasons = append(g.Ops, op), append(g.reasons, reason)
	}
}

// Refused says why the operation at an index of the transaction was refused with err, or nil if
// that operation is not part of the guard.
func (g Guard) Refused(index int, err error) error {
	if index < 0 || index >= len(g.reasons) {
		return nil
	}
	isNamed := g.named > 0 && index >= g.named
	if reason := g.reasons[index]; reason != ticks.ErrSpecChanged || isNamed || errors.Is(err, zkconn.ErrBadVersion) { //nolint:errorlint // ours, never wrapped
		return reason
	}
	return nil // the job's node is gone
}

// ownVersions is how many of VersionOps are not of nodes that the job's spec names.
const ownVersions = 3

// VersionOps check that a job, the calendars that it names, its ancestors' specs, and the group's
// freeze, are as they were when it had that version.
func VersionOps(tree zkrec.Tree, job string, version ticks.Version) []zkconn.Op {
	ops := []zkconn.Op{zkconn.CheckOp(tree.Job(job), version.Spec), zkconn.CheckOp(tree.Register(job), version.Switch), zkconn.CheckOp(tree.Freeze(), version.Freeze)}
	return append(ops, zkconn.CheckOps(version.Named.Nodes())...)
}

// Guard checks that this instance owns the slot under the token. It returns ErrNotOwner if that is
// known not to be so.
func (o *Owner) Guard(slot string, token int64) (Guard, error) {
	own := o.owned[slot]
	if own == nil || own.Token != token {
		return Guard{}, ErrNotOwner
	}
	var g Guard
	// The version proves that the record is still ours, our heartbeat that it is the same job: the
	// versions of a job that was deleted and submitted again start at 0.
	g.add(ErrNotOwner,
		zkconn.CheckOp(o.loop.Tree.Alive(slot), own.version),
		zkconn.CheckOp(o.loop.Tree.Heartbeat(slot, o.member.ID()), zkconn.AnyVersion))
	return g, nil
}

// heartbeatAt is the operation of a guard that is about the heartbeat.
const heartbeatAt = 1

// GuardClaim is Guard for a decision on the slot's ticks that is based on a version of the job's
// spec and switch. A decision under one spec must not be written under the next: so a tick has one
// number of shards. A decision under one switch must not be written under the next either: so a job
// that was paused, or whose group was frozen, begins no run. In latch mode this instance must lead,
// too. Proofs are nodes that must be there, see journal.Gates. If the decision opens a run, the
// heartbeat is written, whatever its version: that nobody else has it is shown by the owner record.
// Call Pulse.Claiming and Pulse.Claimed then.
func (o *Owner) GuardClaim(slot string, token int64, version ticks.Version, opens bool, proofs ...string) (Guard, error) {
	g, err := o.Guard(slot, token)
	if err != nil {
		return g, err
	}
	leader, leads := o.member.Leads()
	if !leads {
		return g, ErrNotLeader
	}
	if opens {
		g.Ops[heartbeatAt] = o.Pulse.beatOp(slot)
	}
	g.named = len(g.Ops) + ownVersions
	g.add(ticks.ErrSpecChanged, VersionOps(o.loop.Tree, zkrec.JobOfSlot(slot), version)...)
	for _, proof := range proofs {
		g.add(ticks.ErrSpecChanged, zkconn.CheckOp(proof, zkconn.AnyVersion))
	}
	if leader != "" {
		g.add(ErrNotLeader, zkconn.CheckOp(leader, zkconn.AnyVersion))
	}
	return g, nil
}

package lease

import (
	"cmp"
	"slices"
)

// lookAround re-reads all slots that are not ours after an instance has joined or
// left. The heartbeats are read before the group, so that the takeover of a dead
// owner's slots checks its last heartbeat and succeeds at once.
func (m *Machine) lookAround() {
	m.look = true
	for _, s := range m.slots {
		if s.mine == nil {
			m.markDirty(s)
		}
	}
}

// lookAll re-reads everything: readings of an earlier connection are outdated.
func (m *Machine) lookAll() {
	m.look = true
	for _, s := range m.slots {
		m.markDirty(s)
		s.refusals = 0
	}
}

// lookAgain is the periodic look. It re-reads the slots that watches do not fully cover, and all slots
// while some have to move, because an offer that goes unnoticed times out.
func (m *Machine) lookAgain(now Instant) {
	uneven := false
	if !m.even || len(m.skipped) > 0 { // instances are skipped for a limited time
		m.heldUp = false
		uneven = m.newRound(m.loads(now)).next().slot != nil
		m.even = !uneven && !m.heldUp
		m.look = m.look || m.heldUp
	}
	for _, s := range m.slots {
		s.refusals = 0
		if uneven || m.isDue(s) {
			m.markDirty(s)
		}
	}
	if now.Mono-m.sampledAt >= Length(m.session) {
		m.sampledAt = now.Mono
		m.sample()
	}
}

// isDue reports whether every periodic look reads s. Most slots have a healthy owner, and reading them
// would be most of the protocol's cost. A change of their record is noticed by a watch, or by a refused
// heartbeat if the slot is ours; a hung owner is noticed in a sample. In any case, a slot is read in the
// round in which it is taken.
func (m *Machine) isDue(s *slot) bool {
	owner := s.rec.Owner
	switch {
	case !s.known, !s.rec.Exists:
		return true
	case owner == (Member{}), len(s.rec.Beats) != 1, s.rec.Beats[0].SID != owner.SID:
		return true // free, or with a heartbeat of an instance that is not the owner
	case s.mine != nil:
		return false
	}
	late := s.readMono-s.beatSince[owner.SID] >= Length(m.session)
	return late || !m.lives(owner)
}

// unread is the number of samples in which every slot is read once. That finds stray heartbeats beside
// the owner's, and owners that send no heartbeat for one slot only.
const unread = 5

// sample is the look once per lease. It reads the instances; one slot of each other owner, in turn,
// because a hung instance sends no heartbeat for any of its slots; and the slots that have not been read
// for longest.
func (m *Machine) sample() {
	m.look = true
	slots := slices.Clone(m.sorted())
	slices.SortStableFunc(slots, func(a, b *slot) int { return cmp.Compare(a.readAt, b.readAt) })
	sampled := make(map[Member]bool)
	for k, s := range slots {
		owner := s.rec.Owner
		first := s.mine == nil && owner != (Member{}) && !sampled[owner]
		if first || k*unread < len(slots) {
			sampled[owner] = true
			m.markDirty(s)
		}
	}
}

// suspect re-reads the other slots of an owner that was just found to be silent.
func (m *Machine) suspect(s *slot) {
	owner := s.rec.Owner
	if owner == (Member{}) || owner == m.cfg.Self || !m.isSilent(s, owner.SID) {
		return
	}
	for _, other := range m.slots {
		earlier := other.readAt < m.roundAt && other.op != reading
		if earlier && other.rec.Owner == owner && !m.isSilent(other, owner.SID) {
			m.markDirty(other)
		}
	}
}

package lease

import (
	"cmp"
	"slices"
)

// lookAround re-reads what others own or nobody does: an instance came or
// went. The heartbeats are read before the group is, so that the takeover of
// a dead owner's slots rests on its last heartbeat and passes at once.
func (m *Machine) lookAround() {
	m.look = true
	for _, s := range m.slots {
		if s.mine == nil {
			m.markDirty(s)
		}
	}
}

// lookAll re-reads everything: what was heard of in an earlier connection is not known any more.
func (m *Machine) lookAll() {
	m.look = true
	for _, s := range m.slots {
		m.markDirty(s)
		s.refusals = 0
	}
}

// lookAgain is the periodic look. It reads the slots of which watches cannot tell all there is to
// know, and then decides anew about every one; it reads all of them as long as slots have to move,
// because an offer that is not heard of runs out.
func (m *Machine) lookAgain(now Instant) {
	uneven := false
	if !m.even || len(m.deaf) > 0 { // who lets offers run out is deaf for a time only
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

// isDue reports whether the periodic look reads s each time. Most slots are owned and well, and
// their reading is most of what the protocol costs. What changes the record of such a one is heard
// of through a watch, or a refused heartbeat if it is ours; that its owner hangs is seen in a
// sample. Whatever is reached for is read in the round of its Take in any case.
func (m *Machine) isDue(s *slot) bool {
	owner := s.rec.Owner
	switch {
	case !s.known, s.behind, !s.rec.Exists:
		return true
	case owner == (Member{}), len(s.rec.Beats) != 1, s.rec.Beats[0].SID != owner.SID:
		return true // free, or with a heartbeat that no record backs
	case s.mine != nil:
		return false
	}
	late := s.readMono-s.beatSince[owner.SID] >= Length(m.session)
	return late || !m.lives(owner)
}

// unread is in how many samples every slot is read once: then a stray heartbeat beside the owner's is
// seen, and that an owner's heartbeats leave out one slot alone.
const unread = 5

// sample is the look once per lease: at the instances; at one slot of each other owner, in turn,
// because an instance that hangs sends no heartbeat for any of its slots; and at the slots that were
// not read for longest.
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

// suspect has the other slots of an owner read whose silence was just seen at one.
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

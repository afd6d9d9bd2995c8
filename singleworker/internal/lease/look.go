package lease

import (
	"cmp"
	"maps"
	"slices"
)

// markDirty marks s to be read in the next round.
func (m *Machine) markDirty(s *slot) {
	if s != nil && !s.gone {
		m.dirty[s.id] = struct{}{}
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

// lookAgain is the periodic look. It re-reads the slots that watches do not fully cover, and
// decides again while something may be taken or moved: what others are given but do not take passes
// on with time.
func (m *Machine) lookAgain(now Instant) {
	m.look = m.look || !m.even
	m.looks++
	m.lookForLives()
	for _, s := range m.slots {
		s.refusals = 0
		switch {
		case m.isDue(s):
			m.markDirty(s)
		case s.mine == nil && s.eligible && !m.lives(s.rec.Owner):
			m.look = true
		}
	}
	if now.Mono-m.sampledAt >= Length(m.session) {
		m.sampledAt = now.Mono
		m.sample()
	}
}

// isDue reports whether every periodic look reads s. Most slots have a healthy owner, or none, and
// reading them would be most of the protocol's cost. A change of their record is noticed by a
// watch, or by a refused heartbeat if the slot is ours; a hung owner by its sign of life. In any
// case, a slot is read in the round in which it is taken.
func (m *Machine) isDue(s *slot) bool {
	owner := s.rec.Owner
	switch {
	case !s.known, !s.rec.Exists:
		return true
	case owner == (Member{}):
		return s.rec.Offer != "" || len(s.rec.Beats) > 0 // who ignores an offer is skipped: that must not be guessed
	case len(s.rec.Beats) != 1, s.rec.Beats[0].SID != owner.SID:
		return true // a heartbeat of an instance that is not the owner
	}
	return false
}

// A sample reads a part of the slots, those that have not been read for longest: a fifth, but no
// more than maxSample. That finds stray heartbeats beside the owner's, and changes of which no
// watch told.
const (
	samples   = 5
	maxSample = 128
)

// neighbors is of how many other owners a sample reads the sign of life: the next ones in a ring.
// So the cost of noticing a hung instance does not grow with the group, and it is noticed even if a
// neighbor hangs, too.
const neighbors = 2

// sample is the look once per lease. It reads the instances, the signs of life of the neighbors,
// and a part of all slots.
func (m *Machine) sample() {
	m.look = true
	slots := slices.Clone(m.sorted())
	slices.SortStableFunc(slots, func(a, b *slot) int { return cmp.Compare(a.readAt, b.readAt) })
	part := min((len(slots)+samples-1)/samples, maxSample)
	for k, s := range slots {
		if k < part {
			m.markDirty(s)
			m.askLife(m.livingOwner(s)) // in the same request: its neighbors may be unable to take its slots
		}
	}
	for _, owner := range m.ring(neighbors) {
		m.askLife(owner)
	}
}

// ring returns the next n other owners in the order of their names, beginning behind this instance.
func (m *Machine) ring(n int) []Member {
	self := m.cfg.Self.SID
	sorted := slices.SortedFunc(maps.Keys(m.owners()), Member.compare)
	first := max(0, slices.IndexFunc(sorted, func(owner Member) bool { return owner.SID >= self }))
	ring := slices.Concat(sorted[first:], sorted[:first])
	return ring[:min(n, len(ring))]
}

// suspect has the slots of an owner read in the next round: the owner was just found to be silent,
// or the transaction at has relieved it, as a record shows that is read for the first time.
func (m *Machine) suspect(owner Member, at int64) {
	if owner != (Member{}) && owner != m.cfg.Self {
		m.suspects[owner] = max(m.suspects[owner], at)
		if l := m.signs[owner]; l == nil || l.readAt < m.roundAt {
			m.askLife(owner)
		}
	}
}

// judgeSuspects marks the slots of suspects that were not read in this round, and skips those that
// were relieved and have taken nothing since. It walks through all slots once, however many
// readings of the round have shown the same.
func (m *Machine) judgeSuspects(now Instant) {
	if len(m.suspects) == 0 {
		return
	}
	for _, s := range m.slots {
		at, suspect := m.suspects[s.rec.Owner]
		if !suspect {
			continue
		}
		if s.rec.Mzxid > at {
			m.suspects[s.rec.Owner] = 0
		}
		if s.readAt < m.roundAt && s.op != reading && !m.isSilent(s, s.rec.Owner.SID) {
			m.markDirty(s)
			m.askLife(s.rec.Owner) // for the same round
		}
	}
	for who, at := range m.suspects {
		if at > 0 {
			m.changes++
			m.skipRelieved(now, who, at)
		}
	}
	clear(m.suspects)
}

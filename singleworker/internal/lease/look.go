package lease

import (
	"cmp"
	"slices"
)

// markDirty marks s to be read in the next round.
func (m *Machine) markDirty(s *slot) {
	if s != nil && !s.gone {
		m.dirty[s.id] = struct{}{}
	}
}

// lookAgain is the periodic look. It re-reads the slots that watches do not fully cover, and
// decides again while something may be taken or moved: what others are given but do not take passes
// on with time.
func (m *Machine) lookAgain(now Instant) {
	m.look = m.look || !m.even
	m.looks++
	if len(m.peers.signs) > 0 {
		m.peers.askAgain(m.owners())
	}
	for _, s := range m.slots {
		s.refusals = 0
		switch {
		case s.isDue():
			m.markDirty(s)
		case s.mine == nil && s.eligible && !m.peers.lives(s.rec.Owner):
			m.look = true
		}
	}
	if now.Mono-m.sampledAt >= Length(m.peers.session) {
		m.sampledAt = now.Mono
		m.sample()
	}
}

// A sample reads a part of the slots, those that have not been read for longest: a fifth, but no
// more than maxSample. That finds stray heartbeats beside the owner's, and changes of which no
// watch told.
const (
	samples   = 5
	maxSample = 128
)

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
			m.peers.ask(s.livingOwner(m.peers)) // in the same request: its neighbors may be unable to take its slots
		}
	}
	m.peers.askNeighbors(m.owners())
}

// judgeSuspects marks the slots of suspects that were not read in this round, and skips those that
// were relieved and have taken nothing since. It walks through all slots once, however many
// readings of the round have shown the same.
func (m *Machine) judgeSuspects(now Instant) {
	if len(m.peers.suspects) == 0 {
		return
	}
	for _, s := range m.slots {
		at, suspect := m.peers.suspects[s.rec.Owner]
		if !suspect {
			continue
		}
		if s.rec.Mzxid > at {
			m.peers.suspects[s.rec.Owner] = 0
		}
		if s.readAt < m.peers.roundAt && s.op != reading && !s.isSilent(m.peers, s.rec.Owner.SID) {
			m.markDirty(s)
			m.peers.ask(s.rec.Owner) // for the same round
		}
	}
	for who, at := range m.peers.suspects {
		if at > 0 {
			m.changes++
			m.peers.skipRelieved(now, who, at)
		}
	}
	clear(m.peers.suspects)
}

// owners are the other instances that own slots.
func (m *Machine) owners() map[Member]bool {
	owners := make(map[Member]bool)
	for _, s := range m.slots {
		if s.mine == nil && s.rec.Owner != (Member{}) {
			owners[s.rec.Owner] = true
		}
	}
	return owners
}

package lease

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
	m.heldUp = false
	uneven := m.newRound(m.loads(now)).next().slot != nil
	m.look = m.look || m.heldUp
	for _, s := range m.slots {
		s.refusals = 0
		if uneven || m.isDue(now, s) {
			m.markDirty(s)
		}
	}
}

// isDue reports whether the periodic look reads s. Most slots are owned and well, and their
// reading is most of what the protocol costs. Such a one is read about once per lease only: what
// changes its record is heard of through a watch, or a refused heartbeat if it is ours, and what nobody
// hears of, an owner's silence or a stray heartbeat, counts after 1.5 sessions. Whatever is
// reached for is read in the round of its Take in any case.
func (m *Machine) isDue(now Instant, s *slot) bool {
	owner := s.rec.Owner
	switch {
	case !s.known, s.behind, !s.rec.Exists, now.Mono-s.readMono >= Length(m.session):
		return true
	case owner == (Member{}), len(s.rec.Beats) != 1, s.rec.Beats[0].SID != owner.SID:
		return true // free, or with a heartbeat that no record backs
	case s.mine != nil:
		return false
	}
	quiet := s.readMono > s.beatSince[owner.SID] // at its version for two readings already
	return quiet || !m.lives(owner)
}

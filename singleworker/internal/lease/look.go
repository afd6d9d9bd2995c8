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
		m.sample(now)
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

// unread is for how many sync periods, or leases' lengths if those are longer, a slot may not be
// read: then a stray heartbeat beside the owner's is seen, and that an owner's heartbeats leave out
// one slot alone.
const unread = 5

// sample is the look once per lease: at one slot of each other owner, in turn, because an instance
// that hangs sends no heartbeat for any of its slots; and at what was not read for long.
func (m *Machine) sample(now Instant) {
	oldest := make(map[Member]*slot)
	for _, s := range m.sorted() {
		if now.Mono-s.readMono >= unread*max(Length(m.session), m.cfg.SyncPeriod) {
			m.markDirty(s)
		}
		owner := s.rec.Owner
		if o := oldest[owner]; s.mine == nil && owner != (Member{}) && (o == nil || s.readAt < o.readAt) {
			oldest[owner] = s
		}
	}
	for _, s := range oldest {
		m.markDirty(s)
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

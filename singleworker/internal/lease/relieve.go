package lease

// Deputy says how many other instances are to relieve the slot's owner before this one if it does
// not claim a run that is due. They come in an order that differs from slot to slot. is is false if
// this instance may not: it has the slot, nobody has, or it cannot take it.
func (m *Machine) Deputy(now Instant, id Slot) (rank int, is bool) {
	s := m.slots[id]
	if s == nil || s.bound || s.isOwned() || s.rec.Owner == (Member{}) || !m.connected || !m.canTake(s) {
		return 0, false
	}
	self := s.preference(m.cfg.Self.SID)
	for _, sid := range s.able.sids {
		before := sid != m.cfg.Self.SID && sid != s.rec.Owner.SID && s.preference(sid) > self
		if before && m.peers.isOpen(sid) && m.peers.mayOffer(now, sid) && !m.peers.full[sid] {
			rank++
		}
	}
	return rank, true
}

// Changes counts the changes of what Deputy depends on.
func (m *Machine) Changes() int { return m.changes }

// Owner is the instance that the slot's record names, as it was last read, or "".
func (m *Machine) Owner(id Slot) string {
	if s := m.slots[id]; s != nil {
		return s.rec.Owner.SID
	}
	return ""
}

// Offered reports whether the slot's record, as it was last read, offers the slot to this instance.
func (m *Machine) Offered(id Slot) bool {
	s := m.slots[id]
	return s != nil && s.rec.Offer == m.cfg.Self.SID
}

// relieve takes an overdue slot from its owner; see rule (c). It starts no round, which costs much
// in a large group that is late anyway: the request itself reads the records that it rests on. A
// slot that is being read is taken when it was: once a deputy has relieved an owner, the others
// read all of its slots, some of which they are about to relieve themselves.
func (m *Machine) relieve(s *slot) {
	if s != nil && s.op == reading && !s.opVoid {
		s.late = true
		return
	}
	if s == nil || s.bound || s.mine != nil || s.op != idle || s.beating || s.rec.Owner == (Member{}) || !m.connected || !m.canTake(s) {
		return
	}
	s.op, s.takeEpoch, s.overdue = taking, m.epoch, true
	m.do(Take{Slot: s.id, Version: s.rec.Version, Relieves: s.livingOwner(m.peers), Overdue: true, Mzxid: s.rec.Mzxid})
}

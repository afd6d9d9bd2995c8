package lease

// plan decides, with slots and group just read. It releases slots that we cannot run, takes free
// ones, and evens out the shares.
func (m *Machine) plan(now Instant) {
	if m.peers.own.Closed {
		m.drain(now)
		return
	}
	m.shed()
	m.adopt(now)
	loads := newTally(now, m.peers, m.sorted())
	m.peers.full = loads.full()
	if !loads.takesPending(now) {
		m.balance(now, loads)
	}
}

// adopt takes the free slots that are this instance's to take.
func (m *Machine) adopt(now Instant) {
	var free []*slot
	for _, s := range m.sorted() {
		switch {
		case !s.isFree(now, m.peers):
		case !s.bound:
			free = append(free, s)
		case s.mayTakeNow():
			m.takeAsRead(s)
		}
	}
	if len(free) == 0 {
		return
	}
	ours, owned := newTally(now, m.peers, m.sorted()).assign(free).ours(now), m.Owned()
	for _, s := range ours {
		if !m.hasRoom(owned) {
			return
		}
		if s.mayTakeNow() {
			owned++
			m.takeAsRead(s)
		}
	}
}

// takeAsRead takes s if it was read in this round: a job that was deleted and submitted again may
// have the same versions.
func (m *Machine) takeAsRead(s *slot) {
	if s.readAt < m.peers.roundAt {
		m.markDirty(s)
		m.peers.ask(s.livingOwner(m.peers))
	} else {
		m.take(s)
	}
}

// balance offers idle slots to instances that own too few.
func (m *Machine) balance(now Instant, loads *tally) {
	b := newBalance(loads, m.cfg.Soon)
	ours := b.ours()
	m.walked += b.walked
	m.heldUp, m.even = b.heldUp, b.even && !m.peers.skipsAny(now) // instances are skipped for a limited time
	for _, next := range ours {
		if next.slot.busy {
			m.evict(next.slot)
		} else {
			m.release(next.slot, loads.sids[next.to])
		}
	}
}

// shed releases slots that this instance cannot run, slots beyond MaxSlots (a Take may
// have been applied late), and slots whose release had an unknown outcome.
func (m *Machine) shed() {
	owned := 0
	if m.cfg.MaxSlots > 0 {
		owned = m.Owned()
	}
	for _, s := range m.sorted() {
		if !s.isOurs() {
			continue
		}
		excess := m.cfg.MaxSlots > 0 && owned > m.cfg.MaxSlots && !s.bound
		switch {
		case s.mine.leaving || (!s.eligible || excess) && !s.busy:
			m.release(s, "")
			owned -= s.counts()
		case (!s.eligible || excess) && m.evict(s):
			owned -= s.counts()
		}
	}
}

// evict has the run of a slot of ours ended that is to move, once, if the run does not end by
// itself. It reports whether that is so.
func (m *Machine) evict(s *slot) bool {
	if !s.isOurs() || !s.busy || !s.always {
		return false
	}
	m.heldUp = true
	if !s.evicted {
		s.evicted = true
		m.do(Evict{s.id})
	}
	return true
}

// drain offers every idle slot to the least loaded instance that can run it.
func (m *Machine) drain(now Instant) {
	m.drainedAt = m.step
	m.walked += len(m.slots)
	if m.even = m.Idle(); m.even {
		return
	}
	loads := newTally(now, m.peers, m.sorted())
	for _, s := range m.sorted() {
		if !s.isOurs() || s.busy {
			m.evict(s)
			continue
		}
		to := ""
		if s.bound {
			m.release(s, to)
			continue
		}
		if k := loads.lightest(s); k >= 0 {
			loads.add(s, k)
			to = loads.sids[k]
		}
		m.release(s, to)
	}
}

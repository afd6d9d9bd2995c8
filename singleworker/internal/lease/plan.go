package lease

// maxOffers limits the slots that an instance offers in one round to what fits in one transaction.
const maxOffers = 500

// refusalLimit is how many refused Takes of a slot are retried at once; then the
// slot waits for the next sync period.
const refusalLimit = 3

// plan decides, with slots and group just read: release what we cannot run, take
// what is free, and even out the shares.
func (m *Machine) plan(now Instant) {
	if m.peers.own.Closed {
		m.drain(now)
		return
	}
	m.shed()
	m.adopt(now)
	loads := m.loads(now)
	m.peers.full = loads.full()
	if !m.takesPending(now, loads) {
		m.balance(now, loads)
	}
}

// shed releases what this instance cannot run, slots beyond MaxSlots (a Take may
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
	loads := m.loads(now)
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
		if k := m.lightest(s, loads); k >= 0 {
			loads.add(s, k)
			to = loads.sids[k]
		}
		m.release(s, to)
	}
}

// lightest returns the index in loads of the least loaded instance that can take
// s, or -1.
func (m *Machine) lightest(s *slot, loads *tally) int {
	best := -1
	for _, k := range loads.takers(m, s).at {
		if !loads.isFull(k) && (best < 0 || loads.oneMore(s, k, best) < 0) {
			best = k
		}
	}
	return best
}

// takesPending reports whether another instance may be taking a free slot at this
// moment: balancing by the current counts could then move slots needlessly.
func (m *Machine) takesPending(now Instant, loads *tally) bool {
	for _, s := range m.sorted() {
		if s.bound || s.mine != nil || s.isTaking() || !s.rec.Exists || s.rec.Offer != "" {
			continue
		}
		if s.rec.Owner != (Member{}) && !s.isGone(m.peers) {
			continue
		}
		k := m.lightest(s, loads)
		if k >= 0 && (s.freeSince == never || now.Mono-s.freeSince < m.peers.syncPeriod+m.peers.patience(now, s.freeSince, loads.sids[k])) {
			return true
		}
	}
	return false
}

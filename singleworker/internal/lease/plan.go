package lease

import (
	"slices"
	"time"
)

// maxOffers limits the slots that an instance offers in one round to what fits in one transaction.
const maxOffers = 500

// refusalLimit is how many refused Takes of a slot are retried at once; then the
// slot waits for the next sync period.
const refusalLimit = 3

// plan decides, with slots and group just read: release what we cannot run, take
// what is free, and even out the shares.
func (m *Machine) plan(now Instant) {
	if m.draining {
		m.drain(now)
		return
	}
	m.shed()
	m.adopt(now)
	loads := m.loads(now)
	m.full = loads.full()
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

// isAble reports whether sid is alive, takes slots, and has the handler of s.
func (m *Machine) isAble(s *slot, sid string) bool {
	if sid == m.cfg.Self.SID {
		return s.eligible && !m.draining
	}
	return m.isOpen(sid) && slices.Contains(s.able.sids, sid)
}

// isOpen reports whether another instance is alive and takes slots.
func (m *Machine) isOpen(sid string) bool {
	p, live := m.peers[sid]
	return live && !p.Closed
}

// takeable reports whether the rules allow taking s now, and records since when a
// dead owner's slot has been free.
func (m *Machine) takeable(now Instant, s *slot) bool {
	if !s.known || !s.rec.Exists {
		return false
	}
	owner := s.rec.Owner
	if owner != (Member{}) && !m.isGone(s, owner) && !m.hangs(s) {
		if s.freeSince != never && m.lives(owner) {
			s.freeSince = never // the owner may have been gone or silent in between
		}
		return false
	}
	for _, b := range s.rec.Beats {
		backed := b.SID == owner.SID
		// Respect a fresh heartbeat even of an instance that is not the owner.
		if !backed && b.SID != m.cfg.Self.SID && !m.isSilent(s, b.SID) {
			return false
		}
	}
	if s.freeSince == never {
		s.freeSince = now.Mono
	}
	offer := s.rec.Offer
	if owner == (Member{}) && offer != "" && offer != m.cfg.Self.SID && m.isAble(s, offer) {
		return now.Mono-s.freeSince > m.patience(now, s, offer)
	}
	return true
}

// isGone is rule (a): the ephemeral node of that incarnation does not exist. The
// group must have been requested after the slot was read.
func (m *Machine) isGone(s *slot, owner Member) bool {
	return s.readAt <= m.groupAsked && !m.lives(owner)
}

// lives reports whether the ephemeral node of that incarnation exists.
func (m *Machine) lives(who Member) bool {
	p, live := m.peers[who.SID]
	return live && (p.Opaque || p.Incarnation == who.Incarnation)
}

// isSilent is rule (b): the heartbeat of sid was too old when it was read. How long that takes is
// not known of an instance whose record cannot be read.
func (m *Machine) isSilent(s *slot, sid string) bool {
	since, seen := s.beatSince.of(sid)
	age := s.readMono - since
	// Of nearly all slots, the first comparison decides: silentAfter is no less, but has to look at
	// the peer.
	return seen && age > stale(m.session) && !m.peers[sid].Opaque && age > m.silentAfter(sid)
}

// hangs is rule (b) for an owner. Its heartbeat may be old because the slot has no run, so the
// owner's sign of life tells, too. That was read in this round: otherwise an owner that is back
// would lose its idle slots.
func (m *Machine) hangs(s *slot) bool {
	owner := s.rec.Owner
	if !m.isSilent(s, owner.SID) || !m.lives(owner) {
		return false
	}
	l := m.signs[owner]
	switch {
	case l == nil, m.isLifeless(owner) && l.readAt < m.roundAt:
		m.askLife(owner)
		return false
	case !l.Exists: // somebody has deleted it, or it has not been written yet: the heartbeat alone tells, and may be a turn old
		since, _ := s.beatSince.of(owner.SID)
		return s.readMono-since > m.silentAfter(owner.SID)+max(0, m.idleBeat())
	}
	return m.isLifeless(owner)
}

// livingOwner is the owner of s, if it is alive.
func (m *Machine) livingOwner(s *slot) Member {
	if m.lives(s.rec.Owner) {
		return s.rec.Owner
	}
	return Member{}
}

// present is the incarnation of an instance whose ephemeral node exists.
func (m *Machine) present(sid string) Member { return Member{sid, m.peers[sid].Incarnation} }

// skipPeriods is for how many sync periods an instance that ignored an offer, or claimed so late
// that it was relieved of a slot, gets no further offers. Otherwise an instance that hangs while
// its session is alive would be offered slots forever, each of which would be unowned for a sync
// period. If it has died, these are over when its session is, at the latest: see skipFor. Each
// instance decides this for itself and respects the offers of others. An instance that has to be
// relieved again soon after that time gets none for twice as long, up to maxSkip times: otherwise
// the jobs of one that is always late would go to and fro.
const (
	skipPeriods = 8
	maxSkip     = 4
)

// skipped is the period during which an instance is not offered slots. It is remembered for as long
// again.
type skipped struct {
	until time.Duration // Mono
	lasts time.Duration
	at    int64 // the transaction that shows that it is to be skipped: what it takes later shows that it is back
}

// offerEnded records whether the instance that the slot was offered to has taken
// it, as rec shows. If more than one change has passed unseen, that is not known,
// unless the offer stood for long when it was read last. If the slot was offered
// again, and the offer had been waiting for long, it was another instance.
func (m *Machine) offerEnded(now Instant, s *slot, rec Record) {
	standing := func(at time.Duration) bool { return s.freeSince != never && at-s.freeSince > m.syncPeriod/2 }
	if !standing(s.readMono) {
		waited := rec.Offer != "" && standing(now.Mono)
		if rec.Version != s.rec.Version+1 || rec.Owner == (Member{}) && !waited {
			return
		}
	}
	offered := s.rec.Offer
	if taker, is := m.skipped[rec.Owner]; is && rec.Mzxid > taker.at {
		taker.until = min(taker.until, now.Mono)
		m.skipped[rec.Owner] = taker
	}
	_, live := m.peers[offered]
	if live && offered != rec.Owner.SID && offered != m.cfg.Self.SID {
		m.skip(now, m.present(offered), rec.Mzxid, m.skipFor(offered))
	}
}

// skipFor is how long an instance is skipped at first. A session lasts two server ticks or more and
// may end one tick late, so that of a dead instance is over by then. One that outlasts skipPeriods
// would have it offered slots once more.
func (m *Machine) skipFor(sid string) time.Duration {
	return max(skipPeriods*m.syncPeriod, m.silentAfter(sid))
}

// skip offers an instance nothing for a while.
func (m *Machine) skip(now Instant, who Member, at int64, lasts time.Duration) {
	m.skipped[who] = skipped{now.Mono + lasts, lasts, max(at, m.skipped[who].at)}
}

// skipRelieved is skip for an owner that was relieved of a slot.
func (m *Machine) skipRelieved(now Instant, who Member, at int64) {
	base := m.skipFor(who.SID)
	lasts := base
	if before, is := m.skipped[who]; is && !m.isForgotten(now, who) {
		if lasts = before.lasts; now.Mono >= before.until { // otherwise it is relieved of many slots at once
			lasts = min(2*lasts, maxSkip*base)
		}
	}
	m.skip(now, who, at, lasts)
}

// isForgotten reports whether it no longer matters that an instance was skipped.
func (m *Machine) isForgotten(now Instant, who Member) bool {
	s := m.skipped[who]
	return m.present(who.SID) != who || now.Mono >= s.until+s.lasts
}

// skipsAny reports whether some live instance is offered nothing at present.
func (m *Machine) skipsAny(now Instant) bool {
	for who := range m.skipped {
		if !m.mayOffer(now, who.SID) {
			return true
		}
	}
	return false
}

// mayOffer reports whether a live instance may be offered slots.
func (m *Machine) mayOffer(now Instant, sid string) bool {
	return now.Mono >= m.skipped[m.present(sid)].until
}

// takesPending reports whether another instance may be taking a free slot at this
// moment: balancing by the current counts could then move slots needlessly.
func (m *Machine) takesPending(now Instant, loads *tally) bool {
	for _, s := range m.sorted() {
		if s.bound || s.mine != nil || s.isTaking() || !s.rec.Exists || s.rec.Offer != "" {
			continue
		}
		if s.rec.Owner != (Member{}) && !m.isGone(s, s.rec.Owner) {
			continue
		}
		k := m.lightest(s, loads)
		if k >= 0 && (s.freeSince == never || now.Mono-s.freeSince < m.syncPeriod+m.patience(now, s, loads.sids[k])) {
			return true
		}
	}
	return false
}

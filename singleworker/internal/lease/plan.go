package lease

import (
	"slices"
	"time"
)

// maxOffers bounds how many slots an instance offers in one round: a newcomer
// takes its share in a few bites, and a mistaken view costs little.
const maxOffers = 8

// refusalLimit is how many refused Takes of one slot are followed by another
// try at once; then it rests until the next sync.
const refusalLimit = 3

// plan decides, with slots and group freshly read: give back what we cannot
// run, take what is free, even out the shares.
func (m *Machine) plan(now Instant) {
	if m.draining {
		m.drain(now)
		return
	}
	m.shed()
	m.adopt(now)
	loads := m.loads(now)
	if !m.settling(now, loads) {
		m.balance(loads)
	}
}

// shed gives back what this instance cannot run, and finishes releases whose
// outcome was unknown. A Take that was applied late may have led beyond
// MaxSlots.
func (m *Machine) shed() {
	owned := m.Owned()
	for _, s := range m.sorted() {
		if !s.isOurs() {
			continue
		}
		excess := m.cfg.MaxSlots > 0 && owned > m.cfg.MaxSlots
		if s.mine.leaving || (!s.eligible || excess) && !s.busy {
			m.release(s, "")
			owned--
		}
	}
}

// drain offers every idle slot to the least loaded instance that can run it.
func (m *Machine) drain(now Instant) {
	loads := m.loads(now)
	for _, s := range m.sorted() {
		if !s.isOurs() || s.busy {
			continue
		}
		to := ""
		if k := m.lightest(s, loads); k >= 0 {
			loads.add(s, k)
			to = loads.sids[k]
		}
		m.release(s, to)
	}
}

// lightest is the instance of loads, of those that can take s, for which one
// more is the least, or -1.
func (m *Machine) lightest(s *slot, loads *tally) int {
	best := -1
	for k, sid := range loads.sids {
		if !loads.isFull(k) && m.isAble(s, sid) && (best < 0 || loads.oneMore(s, k, best) < 0) {
			best = k
		}
	}
	return best
}

// isAble reports whether sid is live, open and has the handler of s.
func (m *Machine) isAble(s *slot, sid string) bool {
	if sid == m.cfg.Self.SID {
		return s.eligible && !m.draining
	}
	return m.isOpen(sid) && slices.Contains(s.able, sid)
}

// isOpen reports whether another instance is live and takes slots.
func (m *Machine) isOpen(sid string) bool {
	p, live := m.peers[sid]
	return live && !p.Closed
}

// takeable reports whether the rules allow to take s now, and notes since when
// a dead owner's slot is free.
func (m *Machine) takeable(now Instant, s *slot) bool {
	if !s.known || !s.rec.Exists {
		return false
	}
	owner := s.rec.Owner
	if owner != (Member{}) && !m.isGone(s, owner) && !m.isSilent(s, owner.SID) {
		if m.lives(owner) {
			s.freeSince = never // it may have been gone, or silent, in between
		}
		return false
	}
	for _, b := range s.rec.Beats {
		backed := b.SID == owner.SID
		// Heartbeats that no record backs: a fresh one is respected.
		if !backed && b.SID != m.cfg.Self.SID && !m.isSilent(s, b.SID) {
			return false
		}
	}
	if s.freeSince == never {
		s.freeSince = now.Mono
	}
	offer := s.rec.Offer
	if owner == (Member{}) && offer != "" && offer != m.cfg.Self.SID && m.isAble(s, offer) {
		return now.Mono-s.freeSince > m.syncPeriod
	}
	return true
}

// isGone is rule (a): that incarnation's ephemeral node does not exist. The
// group counts only if it was asked for after the slot was read.
func (m *Machine) isGone(s *slot, owner Member) bool {
	return s.readAt <= m.groupAsked && !m.lives(owner)
}

// lives reports whether the ephemeral node of that incarnation exists.
func (m *Machine) lives(who Member) bool {
	p, live := m.peers[who.SID]
	return live && (p.Opaque || p.Incarnation == who.Incarnation)
}

// isSilent is rule (b): the heartbeat of sid was, when it was read, older than
// the stale limit.
func (m *Machine) isSilent(s *slot, sid string) bool {
	since, seen := s.beatSince[sid]
	return seen && s.readMono-since > m.patience(sid)
}

// deafFor is how many sync periods an instance is offered nothing that let an
// offer run out. One that hangs while its session lives would be offered slots
// for ever, and each would be idle for a sync period, again and again. That is
// a view of its own: offers that others make to it are respected.
const deafFor = 8

// deafness is that an instance did not take what it was offered.
type deafness struct {
	incarnation string
	until       time.Duration // Mono
}

// offerEnded notes whether the slot was taken by the one it was offered to, now that
// rec is read. When somebody took it and offered it again in between, it is not
// known who; but not, if it waited for long, the one that it was offered to.
func (m *Machine) offerEnded(now Instant, s *slot, rec Record) {
	waited := rec.Offer != "" && s.freeSince != never && now.Mono-s.freeSince > m.syncPeriod/2
	if rec.Owner == (Member{}) && !waited {
		return
	}
	offered := s.rec.Offer
	delete(m.deaf, rec.Owner.SID)
	p, live := m.peers[offered]
	if live && offered != rec.Owner.SID && offered != m.cfg.Self.SID {
		m.deaf[offered] = deafness{p.Incarnation, now.Mono + deafFor*m.syncPeriod}
	}
}

// listens reports whether a live instance may be offered slots.
func (m *Machine) listens(now Instant, sid string) bool {
	d, deaf := m.deaf[sid]
	return !deaf || now.Mono >= d.until || m.peers[sid].Incarnation != d.incarnation
}

// settling reports whether slots are free that somebody else may be taking at
// this moment: counts taken now would move slots for nothing.
func (m *Machine) settling(now Instant, loads *tally) bool {
	for _, s := range m.slots {
		if s.mine != nil || s.isTaking() || !s.rec.Exists || s.rec.Offer != "" {
			continue
		}
		if s.rec.Owner != (Member{}) && !m.isGone(s, s.rec.Owner) {
			continue
		}
		patience := s.freeSince == never || now.Mono-s.freeSince < 2*m.syncPeriod
		if patience && m.lightest(s, loads) >= 0 {
			return true
		}
	}
	return false
}

package lease

import (
	"cmp"
	"slices"
)

// slotRead handles a reading of a slot. The record decides, whatever the machine
// believed. A reading that is older than our own take is repeated, once.
func (m *Machine) slotRead(now Instant, ev SlotRead) {
	s := m.answered(ev.Slot, reading)
	if s == nil {
		return
	}
	late := s.late
	s.late = false
	switch ev.Outcome {
	case Unknown:
		m.markDirty(s)
		return
	case Refused:
		s.known = false // read again by the next periodic look; the round does not wait for it
		return
	case Done:
	}
	rec := ev.Record
	older := s.mine != nil && rec.Exists && rec.Mzxid < s.mine.token
	if older && !s.behind {
		s.behind = true
		m.markDirty(s) // from a server that lags behind
		return
	}
	s.behind = false // if it is older still, the ensemble was restored and has lost our take
	before := s.rec
	s.observe(now, m.step, m.peers, rec)
	if rec.Owner != before.Owner {
		m.changes++
	}
	if rec.Mzxid != before.Mzxid {
		m.peers.suspect(rec.Relieved, rec.Mzxid)
	}
	switch {
	case !rec.Exists:
		m.lose(s, Vanished)
	case rec.Owner == m.cfg.Self:
		m.hold(s)
	default:
		m.lose(s, Taken)
	}
	m.yieldStray(now, s)
	m.accept(s)
	if late && rec.Mzxid == before.Mzxid { // otherwise another deputy was first
		m.relieve(s)
	}
}

// accept takes a slot that the reading shows to be offered to us. It does not need the list of
// instances: the slot has no owner and no heartbeat, and the version check ensures that this holds.
func (m *Machine) accept(s *slot) {
	free := s.rec.Exists && s.rec.Owner == (Member{}) && len(s.rec.Beats) == 0
	if m.connected && free && s.rec.Offer == m.cfg.Self.SID && s.mayTakeNow() && m.canTake(s) {
		m.take(s)
	}
}

// canTake reports whether this instance can run s, and has room for it.
func (m *Machine) canTake(s *slot) bool {
	return s.isAble(m.peers, m.cfg.Self.SID) && (m.cfg.MaxSlots == 0 || m.hasRoom(m.Owned()))
}

// take requests s as it was read.
func (m *Machine) take(s *slot) {
	s.op, s.takeEpoch, s.overdue = taking, m.epoch, false
	m.do(Take{Slot: s.id, Version: s.rec.Version, Remove: s.rec.Beats, Relieves: s.livingOwner(m.peers)})
}

// hasRoom reports whether one more slot may be taken.
func (m *Machine) hasRoom(owned int) bool { return m.cfg.MaxSlots == 0 || owned < m.cfg.MaxSlots }

// hold makes s ours because its record says so. A holding that was not known,
// such as after a Take whose reply was lost, has no lease until a heartbeat is
// acknowledged.
func (m *Machine) hold(s *slot) {
	beat := s.rec.beat(m.cfg.Self.SID)
	if s.mine != nil && s.mine.token == s.rec.Mzxid {
		if s.mine.beat == noBeat && !s.beating {
			s.mine.beat = beat
			m.held = true
		}
	} else {
		m.lose(s, Taken)
		s.mine = &holding{token: s.rec.Mzxid, version: s.rec.Version, beat: beat}
		m.held = true
	}
	// Someone deleted our heartbeat manually. The ownership cannot be renewed, so
	// release the slot and take it again.
	if beat == noBeat && !s.beating && !s.mine.leaving {
		m.release(s, "")
	}
}

// lose ends our holding of s, if any.
func (m *Machine) lose(s *slot, reason Reason) {
	if s.mine == nil {
		return
	}
	gained := s.mine.gained
	s.mine, m.even = nil, false
	if gained {
		m.do(Lost{s.id, reason})
	}
}

// yieldStray removes our heartbeat from a slot that we do not own, and, as the
// owner, stale heartbeats of others; not while draining, for one that cannot be
// removed must not keep the slot from being released.
func (m *Machine) yieldStray(now Instant, s *slot) {
	if s.op != idle || s.beating || !s.rec.Exists {
		return
	}
	for _, b := range s.rec.Beats {
		backed := b.SID == s.rec.Owner.SID
		own := b.SID == m.cfg.Self.SID
		since, _ := s.beatSince.of(b.SID)
		silent := s.mine != nil && !m.peers.own.Closed && now.Mono-since > m.peers.silentAfter(b.SID)
		if !backed && (own || silent) {
			s.op = yielding
			m.do(Yield{s.id, b})
			return
		}
	}
}

// idleBeats is the number of slots without a run, at least, that each round of heartbeats includes.
// So in a small group they are as recent as in the published sample.
const idleBeats = 4

// sendBeats sends the sign of life when it is due, and heartbeats: for each slot with a run, which
// needs its lease, or of which it is not known yet whether it is ours; and for some of the others,
// in turn, so that each has one every IdleBeat. These have no lease in between, and need none: the
// claim of their next run is a heartbeat.
func (m *Machine) sendBeats(now Instant) {
	if m.held && m.reads == 0 { // once for all slots that were read together
		m.nextBeat, m.held = now.Mono, false
	}
	if now.Mono < m.nextBeat {
		return
	}
	period, every := m.peers.session/beatsPerSession, m.peers.idleBeat
	m.nextBeat = now.Mono + period
	left := 0 // of the slots without a run, how many are to have one now
	if every > 0 {
		left = max(idleBeats, int(m.due/every))
		m.due %= every
	}
	slots := m.sorted()
	first, _ := slices.BinarySearchFunc(slots, m.beaten, func(s *slot, id Slot) int { return cmp.Compare(s.id, id+"\x00") })
	beats := make(map[Slot]int32)
	m.walked += len(slots)
	for k := range slots {
		s := slots[(first+k)%len(slots)]
		h := s.mine
		if h == nil {
			continue
		}
		if every > 0 {
			m.due += period
		}
		if h.leaving || h.beat == noBeat || s.beating || s.claiming {
			continue
		}
		if h.gained && !s.busy {
			if left == 0 {
				continue
			}
			left--
			m.beaten = s.id
		}
		s.beating, s.beatToken, s.beatEpoch = true, h.token, m.epoch
		beats[s.id] = h.beat
	}
	m.do(SendBeats{beats})
}

func (m *Machine) beatDone(now Instant, ev BeatDone) {
	s := m.slots[ev.Slot]
	if s == nil {
		return
	}
	crossed, overtaken := s.crossed, s.overtaken
	s.beating, s.crossed, s.overtaken = false, false, false
	m.forget(s)
	if s.mine == nil || s.mine.token != s.beatToken {
		return // the answer to a heartbeat of an earlier ownership
	}
	if overtaken { // whatever became of it, the claim shows as much; but refused together with others, and sent again, it may have come later
		if ev.Outcome == Done {
			s.mine.beat = max(s.mine.beat, ev.Version)
		}
		return
	}
	switch {
	case ev.Outcome == Refused && !crossed && !s.mine.doubtful:
		m.lose(s, Taken)
		m.markDirty(s)
	case ev.Outcome != Done || s.beatEpoch != m.epoch:
		s.mine.beat, s.mine.doubtful = noBeat, s.mine.doubtful || ev.Outcome == Unknown
		m.markDirty(s)
	default:
		m.peers.hear(now, ev.Mzxid)
		s.mine.beat = max(s.mine.beat, ev.Version)
		m.extend(s, ev.SentAt)
		if ev.SentAt.Elapsed < m.leaptAt {
			m.nextBeat = now.Mono
		}
	}
}

// extend renews the lease of s, counted from before its heartbeat was sent.
func (m *Machine) extend(s *slot, sentAt Instant) {
	h := s.mine
	if h.leaving {
		return
	}
	h.until = max(h.until, sentAt.Elapsed+Length(m.peers.session))
	if h.gained {
		m.do(Renewed{s.id, h.until})
		return
	}
	h.gained, m.even = true, false
	m.do(Gained{Slot: s.id, Token: h.token, Version: h.version, Until: h.until, From: h.from})
}

func (m *Machine) takeDone(now Instant, ev TakeDone) {
	s := m.answered(ev.Slot, taking)
	if s == nil {
		return
	}
	if ev.Outcome == Refused && s.overdue {
		if !s.known || !m.peers.lives(s.rec.Owner) { // a watch has told meanwhile that the record has changed, or it is free
			m.markDirty(s)
		}
		return // the request has read why
	}
	if ev.Outcome != Done {
		if ev.Outcome == Refused {
			s.refusals++
		}
		s.unsure = ev.Outcome == Unknown
		m.markDirty(s)
		return
	}
	s.offerEnded(now, m.peers, Record{Owner: m.cfg.Self, Version: ev.Version, Mzxid: ev.Mzxid})
	s.mine = &holding{token: ev.Mzxid, version: ev.Version, beat: 0}
	if s.overdue {
		s.mine.from = s.rec.Owner.SID
	}
	if m.peers.lives(s.rec.Owner) {
		m.peers.skipRelieved(now, s.rec.Owner, ev.Mzxid)
	}
	s.known, s.freeSince = true, never
	s.rec = Record{
		Exists: true, Version: ev.Version, Mzxid: ev.Mzxid, Owner: m.cfg.Self,
		Beats: []Beat{{SID: m.cfg.Self.SID, Mzxid: ev.Mzxid}},
	}
	m.peers.hear(now, ev.Mzxid)
	if s.takeEpoch == m.epoch {
		m.extend(s, ev.SentAt)
	} else {
		m.nextBeat = now.Mono // a heartbeat of the new session must establish the lease
	}
	if m.peers.own.Closed {
		m.look = true
	}
}

// release releases s, to any instance or with an offer to one. The lease ends
// before the request is sent.
func (m *Machine) release(s *slot, offer string) {
	h := s.mine
	h.leaving, h.offer = true, offer
	if h.gained {
		h.gained = false
		m.do(Lost{s.id, Given})
	}
	s.op = releasing
	m.do(Release{Slot: s.id, Version: h.version, Beat: s.rec.beat(m.cfg.Self.SID) != noBeat, Offer: offer})
}

func (m *Machine) releaseDone(ev ReleaseDone) {
	s := m.answered(ev.Slot, releasing)
	if s == nil {
		return
	}
	m.markDirty(s)
	// If refused, the record has changed; if unknown, it must be read. It is not released again
	// before that: rounds that start while a request is in flight do not read the slot, so it could
	// be retried forever.
	s.kept = ev.Outcome != Done
	if ev.Outcome == Done && s.mine != nil {
		// As the next reading will show, except for the version: until then the
		// slot counts for the right instance and cannot be taken.
		s.rec.Owner, s.rec.Offer, s.rec.Beats = Member{}, s.mine.offer, nil
		s.mine, s.readAt = nil, 0
	}
}

// slotsPerStep is how many slots a drain may look at for each event since the one before: when
// thousands of runs end at a moment, the first lets those go that have ended, and the next round
// the others.
const slotsPerStep = 64

func (m *Machine) setBusy(now Instant, ev Busy) {
	s := m.slots[ev.Slot]
	if s == nil || s.busy == ev.Busy {
		return
	}
	s.busy, s.evicted = ev.Busy, false
	switch {
	case s.busy || s.mine == nil:
	case m.peers.own.Closed && m.connected && m.step-m.drainedAt >= len(m.slots)/slotsPerStep:
		m.drain(now)
	case m.peers.own.Closed && m.connected:
		m.look = true
	case !s.eligible, m.heldUp:
		m.look = true // it can be released or moved now that it is idle
	}
}

package lease

import (
	"maps"
	"slices"
)

// applyAnswer applies the answer to a request.
func (m *Machine) applyAnswer(now Instant, ev Event) {
	switch ev := ev.(type) {
	case SlotRead:
		m.slotRead(now, ev)
	case LivesRead:
		m.livesRead(now, ev)
	case GroupRead:
		m.groupRead(now, ev)
	case TakeDone:
		m.takeDone(now, ev)
	case BeatDone:
		m.beatDone(now, ev)
	case ReleaseDone:
		m.releaseDone(ev)
	case YieldDone:
		if s := m.answered(ev.Slot, yielding); s != nil {
			m.markDirty(s)
		}
	}
}

// advanceRound starts a round if one is needed, and reads the group when all
// slots of the round have been read. A slot with a request in flight waits for
// the next round: the answer marks it again.
func (m *Machine) advanceRound(now Instant) {
	if m.phase == resting && (m.look || len(m.dirty) > 0 || len(m.peers.asked) > 0) {
		m.phase, m.look = readingSlots, false
		if asked := m.peers.begin(m.step); len(asked) > 0 {
			m.reads++
			m.do(ReadLives{asked})
		}
		for _, id := range slices.Sorted(maps.Keys(m.dirty)) {
			switch s := m.slots[id]; s.op {
			case idle:
				s.op = reading
				m.reads++
				m.do(ReadSlot{Slot: id, Owner: s.rec.Owner.SID, Sync: s.behind})
			case taking:
				s.known = false // for takeDone, which does not mark every slot
			case reading, releasing, yielding: // the answer marks it
			}
		}
		m.dirty = make(map[Slot]struct{}) // not cleared: one that has held all slots would stay as large
	}
	if m.phase == readingSlots && m.reads == 0 {
		m.judgeSuspects(now)
		m.phase, m.peers.groupAsked = readingGroup, m.step
		m.do(ReadGroup{Asked: m.step})
	}
}

func (m *Machine) groupRead(now Instant, ev GroupRead) {
	if m.phase != readingGroup || ev.Asked != m.peers.groupAsked {
		return // requested before the connection was lost
	}
	m.phase = resting
	if ev.Outcome != Done {
		m.look = true
		return
	}
	if m.peers.read(now, ev.Peers) {
		m.changes++
	}
	if m.connected {
		m.plan(now)
		m.counted = false // any slot may have been taken
	}
}

// livesRead has the slots of lifeless owners read, once for each periodic look: they may still be
// fresh, or not ours to take.
func (m *Machine) livesRead(now Instant, ev LivesRead) {
	m.reads--
	if ev.Outcome != Done {
		m.look = true // whoever needs them asks again
		return
	}
	m.peers.livesRead(now, m.step, ev.Lives)
	for who := range ev.Lives {
		if l := m.peers.signs[who]; m.peers.isLifeless(who) && l.doubted != m.looks {
			l.doubted = m.looks
			m.peers.suspect(who, 0)
		}
	}
}

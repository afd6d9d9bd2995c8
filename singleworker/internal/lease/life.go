package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// life is what is known of an owner's sign of life.
type life struct {
	Life
	since    time.Duration // Mono before which it was written, or since when it is missing
	readMono time.Duration
	readAt   int // step
	doubted  int // the look at which its slots were looked for last
}

// compare orders members, so that a step does not depend on map order.
func (who Member) compare(other Member) int {
	return cmp.Or(cmp.Compare(who.SID, other.SID), cmp.Compare(who.Incarnation, other.Incarnation))
}

// askLife has the sign of life of an owner read in the next round.
func (m *Machine) askLife(who Member) {
	if who != (Member{}) && who != m.cfg.Self {
		m.asked[who] = struct{}{}
		m.look = true
	}
}

// readLives asks for what askLife has noted.
func (m *Machine) readLives() {
	if len(m.asked) == 0 {
		return
	}
	who := slices.SortedFunc(maps.Keys(m.asked), Member.compare)
	m.asked = make(map[Member]struct{})
	m.reads++
	m.do(ReadLives{who})
}

func (m *Machine) livesRead(now Instant, ev LivesRead) {
	m.reads--
	if ev.Outcome != Done {
		m.look = true // what needs them asks again
		return
	}
	latest := int64(0)
	for _, read := range ev.Lives {
		latest = max(latest, read.Mzxid)
	}
	m.hear(now, latest)
	for who, read := range ev.Lives {
		l := &life{Life: read, since: now.Mono, readMono: now.Mono, readAt: m.step}
		if read.Exists {
			l.since = m.past.before(now.Mono, read.Mzxid)
		}
		if before := m.signs[who]; before != nil && before.Life == read {
			l.since, l.doubted = min(l.since, before.since), before.doubted
		}
		m.signs[who] = l
		if m.isLifeless(who) && l.doubted != m.looks {
			l.doubted = m.looks // once: its slots may still be fresh, or not ours to take
			m.suspect(who, 0)
		}
	}
}

// isLifeless reports whether the sign of life of an owner was there, and old, when it was read
// last.
func (m *Machine) isLifeless(who Member) bool {
	l := m.signs[who]
	return l != nil && l.Exists && l.readMono-l.since > m.silentAfter(who.SID) && !m.peers[who.SID].Opaque
}

// patience is how long a free slot is left to the instance that is to take it: a sync period, since
// it may hang; and skipPeriods while it gives signs of life. Then it is only late, as all are when
// they take thousands of slots at once. Its slots in the hands of others would have to move once
// more, which would make all later still.
func (m *Machine) patience(now Instant, s *slot, sid string) time.Duration {
	who := m.present(sid)
	if who.Incarnation == "" || sid == m.cfg.Self.SID || m.full[sid] || now.Mono-s.freeSince <= m.syncPeriod {
		return m.syncPeriod
	}
	l := m.signs[who]
	if l == nil || now.Mono-l.readMono >= m.syncPeriod {
		m.askLife(who)
	}
	if l == nil || m.isRecent(l) {
		return skipPeriods * m.syncPeriod
	}
	return m.syncPeriod
}

// isRecent reports whether a sign of life was so young when it was read that the next one was not
// late by half of the time between two.
func (m *Machine) isRecent(l *life) bool {
	return l.Exists && l.readMono-l.since < 3*m.session/(2*beatsPerSession)
}

// idleBeat is how often a slot without a run has a heartbeat, at least.
func (m *Machine) idleBeat() time.Duration { return cmp.Or(m.cfg.IdleBeat, time.Minute) }

// isLate reports whether a sign of life was so old when it was read that it is to be read again.
func (m *Machine) isLate(l *life) bool { return l.readMono-l.since >= Length(m.session) }

// lookForLives asks again for the signs of life that were late when they were read, and forgets
// those of who owns nothing.
func (m *Machine) lookForLives() {
	if len(m.signs) == 0 {
		return
	}
	owners := m.owners()
	for who, l := range m.signs {
		switch {
		case !owners[who] || !m.lives(who):
			delete(m.signs, who)
		case m.isLate(l):
			m.askLife(who)
		}
	}
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

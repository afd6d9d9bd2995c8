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

// isLifeless reports whether the sign of life of an owner was there, and old, when it was read last.
func (m *Machine) isLifeless(who Member) bool {
	l := m.signs[who]
	return l != nil && l.Exists && l.readMono-l.since > m.silentAfter(who.SID) && !m.peers[who.SID].Opaque
}

// idleBeat is how often a slot without a run has a heartbeat, at least.
func (m *Machine) idleBeat() time.Duration { return cmp.Or(m.cfg.IdleBeat, time.Minute) }

// isLate reports whether a sign of life was so old when it was read that it is to be read again.
func (m *Machine) isLate(l *life) bool { return l.readMono-l.since >= Length(m.session) }

// lookForLives asks again for the signs of life that were late when they were read, and forgets those of who owns nothing.
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

package lease

import (
	"slices"
	"time"
)

// sign writes a machine's knowledge of a sign of life. When it was written matters as long as
// another reading may find it unchanged.
func (s *scribe) sign(k int, who Member, l *life) {
	m, now := s.w.hosts[k].machine, s.w.instant(k)
	s.flag(m.peers.isLifeless(who), l.doubted == m.looks, m.peers.isLate(l), m.peers.isRecent(l), m.phase != resting && l.readAt < m.peers.roundAt)
	s.ago(l.readMono, now.Mono, time.Duration(s.w.set.sync)*oneMoment)
	other := int(who.SID[0] - 'a')
	current := s.w.lives[other][slices.Index(incarnations[other][:], who.Incarnation)]
	same := l.Exists == (current > 0) && (!l.Exists || l.Mzxid == current)
	for _, ev := range s.w.hosts[k].in {
		if ev, reads := ev.(LivesRead); reads && ev.Lives[who] == l.Life {
			same = true
		}
	}
	if s.flag(same, l.Exists); same {
		s.ago(l.since, now.Mono, s.longAgo(k))
		if l.Exists {
			s.zxid(l.Mzxid)
		}
	}
}

// lives writes a reading of signs of life.
func (s *scribe) lives(of map[Member]Life) {
	for other := range s.w.set.hosts {
		for _, incarnation := range incarnations[other][1:] {
			read, is := of[Member{sidOf(other), incarnation}]
			if s.flag(is, read.Exists); is {
				s.zxid(read.Mzxid)
			}
		}
	}
}

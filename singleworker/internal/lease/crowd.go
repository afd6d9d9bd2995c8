package lease

import (
	"slices"
	"strings"
)

// crowd is the instances that can run a slot. There is one for all slots that the same instances
// can run: of thousands of slots and dozens of instances, most have the same.
type crowd struct{ sids []string }

// maxCrowds is how many crowds are kept before those that no slot has are dropped.
const maxCrowds = 1000

// crowd returns the crowd of these instances.
func (m *Machine) crowd(sids []string) *crowd {
	key := strings.Join(sids, "\x00")
	if known := m.crowds[key]; known != nil {
		return known
	}
	if len(m.crowds) >= maxCrowds {
		clear(m.crowds)
		for _, s := range m.slots {
			if s.able != nil {
				m.crowds[strings.Join(s.able.sids, "\x00")] = s.able
			}
		}
	}
	added := &crowd{slices.Clone(sids)}
	m.crowds[key] = added
	return added
}

// takers are those of a crowd that take slots, as indices of a tally, in its order.
type takers struct {
	at     []int
	weight int // of all that take slots, also of those that the tally leaves out
}

// takers finds out which of the instances that can run s take slots.
func (t *tally) takers(m *Machine, s *slot) *takers {
	of := able{s.able, s.eligible && !m.peers.own.Closed}
	if known := t.able[of]; known != nil {
		return known
	}
	found := new(takers)
	add := func(sid string) {
		found.weight += m.peers.weight(sid)
		if k, counted := t.at[sid]; counted {
			found.at = append(found.at, k)
		}
	}
	for _, sid := range s.able.sids {
		if sid != m.cfg.Self.SID && m.peers.isOpen(sid) {
			add(sid)
		}
	}
	if of.self {
		add(m.cfg.Self.SID)
	}
	slices.Sort(found.at)
	t.able[of] = found
	return found
}

// able is who can run a slot: some others, and perhaps this instance.
type able struct {
	others *crowd
	self   bool
}

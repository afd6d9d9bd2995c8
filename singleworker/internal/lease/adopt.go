package lease

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

// adopt takes free slots in an order that differs between instances, so that
// they rarely compete for the same one. It takes slots up to the fair share, of
// all slots and of each group, at once, and beyond it those that have been free
// for a sync period.
func (m *Machine) adopt(now Instant) {
	var free []*slot
	for _, s := range m.slots {
		if s.eligible && s.op == idle && !s.beating && s.mine == nil && s.refusals < refusalLimit && m.takeable(now, s) {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		return
	}
	loads := m.loads(now)
	shares := m.shares(loads)
	self := loads.at[m.cfg.Self.SID]
	owned, inGroup := 0, make(map[string]int)
	for _, s := range m.slots {
		if s.isOwned() {
			owned++
			inGroup[s.group]++
		}
	}
	m.sortFree(free, inGroup, shares, self)
	for _, s := range free {
		if !m.hasRoom(owned) {
			return
		}
		part, grouped := shares.groups[s.group]
		offered := s.rec.Offer == m.cfg.Self.SID
		left := s.freeSince != never && now.Mono-s.freeSince > m.syncPeriod
		fair := owned < roundUp(shares.all[self])
		if grouped {
			fair = inGroup[s.group] < roundUp(part[self]) && (fair || !m.isLeftTo(s, loads, shares))
		}
		if fair || offered || left {
			// Requires a reading of this round: a job that was deleted and
			// submitted again may have the same versions.
			if s.readAt < m.roundAt {
				m.markDirty(s)
				continue
			}
			owned++
			inGroup[s.group]++
			m.take(s)
		}
	}
}

// sortFree sorts the slots that may be taken: first those within this instance's
// share of their group, groups of which it owns fewest first, and then slots
// without a group, which any instance can take as well. If MaxSlots is below the
// share, all slots take turns, so that no job waits for the many shards of
// another.
func (m *Machine) sortFree(free []*slot, inGroup map[string]int, shares shares, self int) {
	rank := make(map[*slot]uint64, len(free))
	for _, s := range free {
		rank[s] = m.rank(s.id)
	}
	slices.SortFunc(free, func(a, b *slot) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a.id, b.id)) })
	scarce := m.cfg.MaxSlots > 0 && m.cfg.MaxSlots < roundUp(shares.all[self])
	turn := make(map[*slot]int, len(free))
	ahead := make(map[string]int)
	for _, s := range free {
		part, grouped := shares.groups[s.group]
		if !grouped {
			continue
		}
		turn[s] = inGroup[s.group] + ahead[s.group]
		ahead[s.group]++
		if turn[s] < roundUp(part[self]) && !scarce {
			turn[s] -= len(m.slots)
		}
	}
	slices.SortStableFunc(free, func(a, b *slot) int { return cmp.Compare(turn[a], turn[b]) })
}

// rank orders the slots for this instance.
func (m *Machine) rank(id Slot) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.cfg.Self.SID + "\x00" + string(id)))
	return h.Sum64()
}

// shares are how many slots each instance should own, in all and of each group.
// Each slot counts as the instance's fraction of the weights of all instances
// that can run it. The order is that of a tally.
type shares struct {
	all    []float64
	groups map[string][]float64
}

func (m *Machine) shares(loads *tally) shares {
	out := shares{make([]float64, len(loads.sids)), make(map[string][]float64)}
	for group := range loads.groups {
		out.groups[group] = make([]float64, len(loads.sids))
	}
	var able []int
	for _, s := range m.slots {
		able = able[:0]
		weights := 0
		for _, sid := range s.able {
			if sid != m.cfg.Self.SID && m.isOpen(sid) {
				weights += m.weight(sid)
				if k, counted := loads.at[sid]; counted {
					able = append(able, k)
				}
			}
		}
		if m.isAble(s, m.cfg.Self.SID) {
			weights += m.weight(m.cfg.Self.SID)
			able = append(able, loads.at[m.cfg.Self.SID])
		}
		for _, k := range able {
			part := float64(loads.weight[k]) / float64(weights)
			out.all[k] += part
			if group := out.groups[s.group]; group != nil {
				group[k] += part
			}
		}
	}
	return out
}

func roundUp(share float64) int {
	const rounding = 1e-9 // nine times one third is three, not four
	return int(math.Ceil(share - rounding))
}

// isLeftTo reports whether another instance should take s, a slot of a group,
// because it lacks slots of the group and of all slots. If no instance does, the
// share of the group takes precedence over that of all slots.
func (m *Machine) isLeftTo(s *slot, loads *tally, shares shares) bool {
	counts, parts := loads.groups[s.group], shares.groups[s.group]
	for k, sid := range loads.sids {
		if sid != m.cfg.Self.SID && m.isAble(s, sid) && !loads.isFull(k) &&
			loads.all[k] < roundUp(shares.all[k]) && counts[k] < roundUp(parts[k]) {
			return true
		}
	}
	return false
}

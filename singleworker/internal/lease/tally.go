package lease

import (
	"cmp"
	"slices"
)

// ratio is a number of slots, in halves, by weight: half a slot more or less than
// an instance has. A slot moves when its owner without half of it has more by
// weight than the other with half of it, which is to say: when the sum over all
// instances of the squares of their numbers, each divided by the weight, becomes
// smaller. Of equal weights that is: when the counts differ by two or more.
type ratio struct{ halves, weight int }

func (r ratio) compare(other ratio) int {
	return cmp.Compare(r.halves*other.weight, other.halves*r.weight)
}

// minus is by how much that sum becomes smaller.
func (r ratio) minus(other ratio) ratio {
	return ratio{r.halves*other.weight - other.halves*r.weight, r.weight * other.weight}
}

// tally is how many slots every instance has that may be offered slots.
type tally struct {
	sids           []string // sorted; the numbers are in this order
	at             map[string]int
	weight, limits []int
	all            []int
	// groups has those of two slots or more. A slot that is the only one of its
	// group is alone: evened out by weight, every such group would end up on the
	// heaviest instance.
	groups map[string][]int
}

func (t *tally) add(s *slot, k int) {
	t.all[k]++
	if group := t.groups[s.group]; group != nil {
		group[k]++
	}
}

func (t *tally) isFull(k int) bool { return t.limits[k] > 0 && t.all[k] >= t.limits[k] }

// oneMore compares what a and b have with half a slot more: of the group of s,
// if it has one, and then of all.
func (t *tally) oneMore(s *slot, a, b int) int {
	more := func(counts []int) int {
		return ratio{2*counts[a] + 1, t.weight[a]}.compare(ratio{2*counts[b] + 1, t.weight[b]})
	}
	if group := t.groups[s.group]; group != nil {
		return cmp.Or(more(group), more(t.all))
	}
	return more(t.all)
}

// loads counts the slots of every instance that may be offered slots. A slot on
// offer counts for the one it is offered to.
func (m *Machine) loads(now Instant) *tally {
	t := &tally{sids: []string{m.cfg.Self.SID}, at: make(map[string]int), groups: make(map[string][]int)}
	for sid, p := range m.peers {
		if sid != m.cfg.Self.SID && !p.Closed && m.listens(now, sid) {
			t.sids = append(t.sids, sid)
		}
	}
	slices.Sort(t.sids)
	for k, sid := range t.sids {
		t.at[sid] = k
		t.weight = append(t.weight, m.weight(sid))
		t.limits = append(t.limits, m.limit(sid))
	}
	t.all = make([]int, len(t.sids))
	sizes := make(map[string]int)
	for _, s := range m.slots {
		if sizes[s.group]++; sizes[s.group] == 2 && s.group != "" {
			t.groups[s.group] = make([]int, len(t.sids))
		}
	}
	for _, s := range m.slots {
		if k, counted := t.at[m.holder(s)]; counted {
			t.add(s, k)
		}
	}
	return t
}

// holder is who has s, or will have it, or "".
func (m *Machine) holder(s *slot) string {
	switch {
	case s.mine != nil && !s.mine.leaving, s.isTaking():
		return m.cfg.Self.SID
	case s.mine != nil:
		return s.mine.offer
	case s.rec.Owner == Member{}:
		return s.rec.Offer
	case s.rec.Owner.SID != m.cfg.Self.SID && m.lives(s.rec.Owner):
		return s.rec.Owner.SID
	}
	return ""
}

// weight is that of an instance's share.
func (m *Machine) weight(sid string) int {
	if sid == m.cfg.Self.SID {
		return max(1, m.cfg.Weight)
	}
	return max(1, m.peers[sid].Weight)
}

// limit is how many slots an instance owns at the most; 0: no limit.
func (m *Machine) limit(sid string) int {
	if sid == m.cfg.Self.SID {
		return m.cfg.MaxSlots
	}
	return m.peers[sid].MaxSlots
}

package lease

import (
	"cmp"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
)

// ratio is a number of half slots divided by a weight: an instance's count plus
// or minus half a slot. A slot moves if its owner's count minus a half, divided by
// its weight, exceeds the receiver's count plus a half, divided by its weight. That
// is if and only if the sum over all instances of count² / weight decreases. With
// equal weights it means that the counts differ by two or more.
type ratio struct{ halves, weight int }

func (r ratio) compare(other ratio) int {
	return cmp.Compare(r.halves*other.weight, other.halves*r.weight)
}

// minus returns the difference, by which that sum decreases.
func (r ratio) minus(other ratio) ratio {
	return ratio{r.halves*other.weight - other.halves*r.weight, r.weight * other.weight}
}

// tally counts the slots of every instance that may be offered slots.
type tally struct {
	sids           []string // sorted; the order of the counts
	at             map[string]int
	hashes         []uint64 // see Machine.rank
	weight, limits []int
	all            []int
	// groups has the groups of at least two slots. The only slot of a group counts
	// as having no group: balanced by weight, every such group would end up on the
	// instance with the largest weight.
	groups map[string][]int
	able   map[able]*takers
	// holders are the instances that own the slots or will, in the order of Machine.sorted: -1 if none
	// that is counted does.
	holders []int
}

func (t *tally) add(s *slot, k int) {
	t.all[k]++
	if group := t.groups[s.group]; group != nil {
		group[k]++
	}
}

func (t *tally) isFull(k int) bool { return t.limits[k] > 0 && t.all[k] >= t.limits[k] }

// full lists the instances that own as many slots as they may.
func (t *tally) full() map[string]bool {
	full := make(map[string]bool)
	for k, sid := range t.sids {
		if t.isFull(k) {
			full[sid] = true
		}
	}
	return full
}

// oneMore compares the loads of a and b with half a slot more: first of the group
// of s, if it has one, then of all slots.
func (t *tally) oneMore(s *slot, a, b int) int {
	more := func(counts []int) int {
		return ratio{2*counts[a] + 1, t.weight[a]}.compare(ratio{2*counts[b] + 1, t.weight[b]})
	}
	if group := t.groups[s.group]; group != nil {
		return cmp.Or(more(group), more(t.all))
	}
	return more(t.all)
}

// loads counts the slots of every instance that may be offered slots. An offered
// slot counts for the instance that it is offered to.
func (m *Machine) loads(now Instant) *tally {
	t := &tally{sids: []string{m.cfg.Self.SID}, at: make(map[string]int), groups: make(map[string][]int), able: make(map[able]*takers)}
	for sid, p := range m.peers.live {
		if sid != m.cfg.Self.SID && !p.Closed && m.peers.mayOffer(now, sid) {
			t.sids = append(t.sids, sid)
		}
	}
	slices.Sort(t.sids)
	for k, sid := range t.sids {
		t.at[sid] = k
		t.hashes = append(t.hashes, preference.Hash(sid))
		t.weight = append(t.weight, m.peers.weight(sid))
		t.limits = append(t.limits, m.peers.peer(sid).MaxSlots)
	}
	t.all = make([]int, len(t.sids))
	slots, sizes := m.sorted(), make(map[string]int)
	for _, s := range slots {
		if s.group == "" {
			continue
		}
		if sizes[s.group]++; sizes[s.group] == 2 {
			t.groups[s.group] = make([]int, len(t.sids))
		}
	}
	t.holders = make([]int, len(slots))
	for i, s := range slots {
		k, counted := t.at[s.holder(m.peers)]
		if !counted {
			k = -1
		} else if !s.bound {
			t.add(s, k)
		}
		t.holders[i] = k
	}
	return t
}

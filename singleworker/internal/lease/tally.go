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
	peers          *peers
	slots          []*slot  // sorted by name
	sids           []string // sorted; the order of the counts
	at             map[string]int
	self           int      // at of this instance
	hashes         []uint64 // see rank
	weight, limits []int
	all            []int
	// groups has the groups of at least two slots. The only slot of a group counts
	// as having no group: balanced by weight, every such group would end up on the
	// instance with the largest weight.
	groups map[string][]int
	able   map[able]*takers
	// holders are the instances that own the slots or will, in their order: -1 if none that is counted
	// does.
	holders []int
}

// newTally counts the slots, which are sorted by name. An offered slot counts for the instance that
// it is offered to.
func newTally(now Instant, p *peers, slots []*slot) *tally {
	t := &tally{
		peers: p, slots: slots, sids: []string{p.self.SID},
		at: make(map[string]int), groups: make(map[string][]int), able: make(map[able]*takers),
	}
	for sid := range p.live {
		if sid != p.self.SID && p.isOpen(sid) && p.mayOffer(now, sid) {
			t.sids = append(t.sids, sid)
		}
	}
	slices.Sort(t.sids)
	for k, sid := range t.sids {
		t.at[sid] = k
		t.hashes = append(t.hashes, preference.Hash(sid))
		t.weight = append(t.weight, p.weight(sid))
		t.limits = append(t.limits, p.peer(sid).MaxSlots)
	}
	t.self, t.all = t.at[p.self.SID], make([]int, len(t.sids))
	sizes := make(map[string]int)
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
		k, counted := t.at[s.holder(p)]
		if !counted {
			k = -1
		} else if !s.bound {
			t.add(s, k)
		}
		t.holders[i] = k
	}
	return t
}

// rank orders the instances for a slot, and the slots for an instance, at random but alike
// everywhere.
func (t *tally) rank(k int, s *slot) uint64 { return preference.Of(t.hashes[k], s.hash) }

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

// takers are the members of a crowd that take slots, as indices of a tally, in its order.
type takers struct {
	at     []int
	weight int // of all that take slots, also of those that the tally leaves out
}

// takers finds out which of the instances that can run s take slots.
func (t *tally) takers(s *slot) *takers {
	self := t.sids[t.self]
	of := able{s.able, s.isAble(t.peers, self)}
	if known := t.able[of]; known != nil {
		return known
	}
	found := new(takers)
	add := func(sid string) {
		found.weight += t.peers.weight(sid)
		if k, counted := t.at[sid]; counted {
			found.at = append(found.at, k)
		}
	}
	for _, sid := range s.able.sids {
		if sid != self && t.peers.isOpen(sid) {
			add(sid)
		}
	}
	if of.self {
		add(self)
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

// lightest returns the index of the least loaded instance that can take
// s, or -1.
func (t *tally) lightest(s *slot) int {
	best := -1
	for _, k := range t.takers(s).at {
		if !t.isFull(k) && (best < 0 || t.oneMore(s, k, best) < 0) {
			best = k
		}
	}
	return best
}

// takesPending reports whether another instance may be taking a free slot at this
// moment: balancing by the current counts could then move slots needlessly.
func (t *tally) takesPending(now Instant) bool {
	for _, s := range t.slots {
		if s.bound || s.mine != nil || s.isTaking() || !s.rec.Exists || s.rec.Offer != "" {
			continue
		}
		if s.rec.Owner != (Member{}) && !s.isGone(t.peers) {
			continue
		}
		k := t.lightest(s)
		if k >= 0 && (s.freeSince == never || now.Mono-s.freeSince < t.peers.syncPeriod+t.peers.patience(now, s.freeSince, t.sids[k])) {
			return true
		}
	}
	return false
}

package lease

import (
	"cmp"
	"maps"
	"slices"
)

// round computes the moves of one round, for all instances. A move makes the
// slots of one group more even, or keeps them as even and makes all slots more
// even. Evenness is a sum (see ratio), and that of the group takes precedence; so
// the moves end, and none is ever undone. If all instances are alike, the counts
// of every group then differ by at most one, and so do those of all slots: an
// instance with two more than another would have more of some group, or more
// slots without a group, and could give one of these.
type round struct {
	m *Machine
	*tally
	all    *pile
	groups []*pile // those that may become more even, by name
	of     map[string]*pile
	// spent are the slots that were moved, and those of ours that cannot be moved.
	spent map[*slot]bool
}

// pile is the slots of a group, or all slots.
type pile struct {
	// counts is how many slots each instance will own. It determines the order of
	// the moves, so that an instance that already sees the first moves finds the
	// same next ones.
	counts []int
	// gives and takes determine whether a slot moves at all. For the giving
	// instance, gives leaves out the slots that it will receive; for the receiving
	// one, takes leaves out those that it will give away. A slot to be moved may be
	// running at its owner, which is not known here, and stay there for long;
	// counting on its move could move slots back and forth for as long as the run
	// lasts. So every move is an improvement whichever others are made, and none
	// depends on another.
	gives, takes []int
	slots        [][]*slot        // by owner; of a group only if it may become more even
	scans        map[[2]int]*scan // by giving and receiving instance
	best         ratio            // upper bound of a move's gain
}

// scan is how far the slots of an instance were looked at for one that can be moved to another one.
// What cannot be moved there stays so for the round: slots that were moved do not come back, who
// can take a slot is known, and the moves between two instances only gain less (see gives and
// takes). So a slot is looked at once in each pass for two instances, and not again for each move.
type scan struct{ pass, next int }

// The passes look for slots that are idle, or of other instances; and then for those that can only
// be moved by ending their run, first where that has begun.
const (
	passIdle = iota
	passEvicted
	passAlways
	passes
)

// move is a move of a slot between two instances of the tally; slot is nil for
// no move.
type move struct {
	slot     *slot
	from, to int
	gain     ratio
}

// balance offers idle slots to instances that own too few. Every instance
// computes the same moves from the same records, those with the largest gain
// first, and carries out its own. So the counts become as even as possible with
// no more moves than needed. It offers nothing while it is taking a slot that it
// may not get.
func (m *Machine) balance(now Instant, loads *tally) {
	m.heldUp = false
	r := m.newRound(loads)
	reaching := m.isReaching()
	for offers, moves := 0, 0; offers < maxOffers; moves++ {
		next := r.next()
		own := next.slot != nil && next.slot.mine != nil
		if next.slot == nil {
			m.even = moves == 0 && !m.heldUp && !m.peers.skipsAny(now) // instances are skipped for a limited time
		}
		if next.slot == nil || own && reaching {
			return
		}
		r.make(next)
		switch {
		case own && next.slot.busy:
			m.evict(next.slot)
		case own:
			m.release(next.slot, r.sids[next.to])
			offers++
		}
	}
}

func (m *Machine) isReaching() bool {
	for _, s := range m.slots {
		if s.isTaking() {
			return true
		}
	}
	return false
}

func (m *Machine) newRound(loads *tally) *round {
	r := &round{m: m, tally: loads, all: newPile(loads.all), of: make(map[string]*pile), spent: make(map[*slot]bool)}
	for _, group := range slices.Sorted(maps.Keys(loads.groups)) {
		p := newPile(loads.groups[group])
		r.of[group] = p
		if p.best = r.bound(p.counts); p.best.halves > 0 {
			p.slots = make([][]*slot, len(r.sids))
			r.groups = append(r.groups, p)
		}
	}
	r.all.slots = make([][]*slot, len(r.sids))
	for k, count := range loads.all {
		r.all.slots[k] = make([]*slot, 0, count)
	}
	for i, s := range m.sorted() {
		k := loads.holders[i]
		if s.bound || k < 0 {
			continue
		}
		h := s.mine
		// Our slots count if they can be offered now, those of others always, also what was offered to
		// them: those who do not have it yet give as much as those who have. Otherwise each instance that
		// takes what it was offered among the first gives enough for all.
		if h != nil && (!h.gained || s.op != idle) || h == nil && (s.isTaking() || s.rec.Owner == (Member{}) && s.rec.Offer == "") {
			continue
		}
		r.all.slots[k] = append(r.all.slots[k], s)
		if p := r.of[s.group]; p != nil && p.slots != nil {
			p.slots[k] = append(p.slots[k], s)
		}
	}
	return r
}

func newPile(counts []int) *pile {
	n := len(counts)
	thrice := slices.Concat(counts, counts, counts)
	return &pile{counts: thrice[:n], gives: thrice[n : 2*n], takes: thrice[2*n:], scans: make(map[[2]int]*scan)}
}

// gain is by how much the sum decreases when from, which has gives[from] slots,
// gives one to an instance that has takes[to].
func (r *round) gain(gives, takes []int, from, to int) ratio {
	return ratio{2*gives[from] - 1, r.weight[from]}.minus(ratio{2*takes[to] + 1, r.weight[to]})
}

// bound is the gain between the instance with most and that with fewest slots: an
// upper bound that quickly rules out the groups that are even already.
func (r *round) bound(counts []int) ratio {
	most, least := 0, 0
	for k := range counts {
		if r.gain(counts, counts, k, 0).compare(r.gain(counts, counts, most, 0)) > 0 {
			most = k
		}
		if r.gain(counts, counts, 0, k).compare(r.gain(counts, counts, 0, least)) > 0 {
			least = k
		}
	}
	return r.gain(counts, counts, most, least)
}

// next finds the move with the largest gain for a group. If no group can become
// more even, it finds the move with the largest gain for all slots.
func (r *round) next() move {
	for len(r.groups) > 0 {
		first := 0
		for k, p := range r.groups {
			if p.best.compare(r.groups[first].best) > 0 {
				first = k
			}
		}
		p := r.groups[first]
		found := r.find(p)
		switch {
		case found.slot == nil:
			r.groups = slices.Delete(r.groups, first, first+1)
		case found.gain.compare(p.best) < 0:
			p.best = found.gain // another group may come first
		default:
			return found
		}
	}
	return r.find(r.all)
}

// find finds the move with the largest gain for p, and among equals the one with
// the largest gain for all slots.
func (r *round) find(p *pile) move {
	for {
		var best move
		var bestOfAll ratio
		found := false
		for from, slots := range p.slots {
			for to := len(r.sids) - 1; to >= 0 && len(slots) > 0; to-- {
				full := r.limits[to] > 0 && r.all.takes[to] >= r.limits[to]
				if full || r.gain(p.gives, p.takes, from, to).halves <= 0 || p.isBarren(from, to) {
					continue
				}
				gain, ofAll := r.gain(p.counts, p.counts, from, to), r.gain(r.all.counts, r.all.counts, from, to)
				if !found || cmp.Or(gain.compare(best.gain), ofAll.compare(bestOfAll)) > 0 {
					best, bestOfAll, found = move{from: from, to: to, gain: gain}, ofAll, true
				}
			}
		}
		if !found {
			return move{}
		}
		if best.slot = r.movable(p, best.from, best.to); best.slot != nil {
			return best
		}
	}
}

// isBarren reports whether nothing can be moved between two instances.
func (p *pile) isBarren(from, to int) bool {
	c := p.scans[[2]int{from, to}]
	return c != nil && c.pass == passes
}

// movable finds a slot of p that can be moved without making its group less even.
func (r *round) movable(p *pile, from, to int) *slot {
	c := p.scans[[2]int{from, to}]
	if c == nil {
		c = new(scan)
		p.scans[[2]int{from, to}] = c
	}
	for ; c.pass < passes; c.pass, c.next = c.pass+1, 0 {
		for ; c.next < len(p.slots[from]); c.next++ {
			r.m.walked++
			if s := p.slots[from][c.next]; r.moves(s, from, to, c.pass) {
				return s
			}
		}
	}
	return nil
}

// moves reports whether a slot can be moved, in that pass of a scan.
func (r *round) moves(s *slot, from, to, pass int) bool {
	if group := r.of[s.group]; group != nil && r.gain(group.gives, group.takes, from, to).halves < 0 {
		return false
	}
	if r.spent[s] || !slices.Contains(r.takers(r.m, s).at, to) {
		return false
	}
	switch {
	case s.mine != nil && s.busy && s.always:
		r.m.heldUp = true
		return pass == passAlways || pass == passEvicted && s.evicted
	case pass != passIdle:
		return false
	case s.mine != nil && (s.busy || r.m.cfg.Soon != nil && r.m.cfg.Soon(s.id)):
		r.m.heldUp, r.spent[s] = true, true
		return false
	}
	return true
}

// make applies a move to the counts.
func (r *round) make(next move) {
	for _, p := range []*pile{r.all, r.of[next.slot.group]} {
		if p != nil {
			p.counts[next.from]--
			p.counts[next.to]++
			p.gives[next.from]--
			p.takes[next.to]++
			p.best = r.bound(p.counts)
		}
	}
	r.spent[next.slot] = true
}

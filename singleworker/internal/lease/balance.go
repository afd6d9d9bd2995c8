package lease

import (
	"cmp"
	"maps"
	"slices"
)

// balance computes the moves of one round, for all instances. A move makes the slots of one group
// more even, or keeps them as even and makes all slots more even. Evenness is a sum (see ratio),
// and the group's takes precedence. So the moves end, and none is ever undone. If all instances are
// alike, the counts of every group then differ by at most one, and so do the counts of all slots:
// an instance with two more than another would have more of some group, or more slots without a
// group, and could give one of these.
type balance struct {
	*tally
	soon   func(Slot) bool // Config.Soon
	all    *pile
	groups []*pile // those that may become more even, by name
	of     map[string]*pile
	// spent are the slots that were moved, and our own that cannot be moved.
	spent  map[*slot]bool
	heldUp bool // a slot of ours would move, but for its run or its tick
	even   bool // no slot has to move
	walked int  // at how many slots the scans have looked
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
// A slot that cannot be moved there stays so for the round: slots that were moved do not come back,
// who can take a slot is known, and the moves between two instances only gain less (see gives and
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

// maxOffers limits the slots that an instance offers in one round to what fits in one transaction.
const maxOffers = 500

// ours computes the moves, and lists the ones of our slots that are to be carried out now.
// Every instance computes the same moves from the same records, those with the largest gain first,
// and carries out its own. So the counts become as even as possible with no more moves than needed.
// None of ours is listed while this instance is taking a slot that it may not get.
func (b *balance) ours() (ours []move) {
	reaching := slices.ContainsFunc(b.slots, (*slot).isTaking)
	for offers, moves := 0, 0; offers < maxOffers; moves++ {
		next := b.next()
		if next.slot == nil {
			b.even = moves == 0 && !b.heldUp
			break
		}
		b.make(next)
		if next.slot.mine == nil {
			continue
		}
		if reaching {
			break
		}
		if ours = append(ours, next); !next.slot.busy {
			offers++
		}
	}
	return ours
}

func newBalance(t *tally, soon func(Slot) bool) *balance {
	b := &balance{tally: t, soon: soon, all: newPile(t.all), of: make(map[string]*pile), spent: make(map[*slot]bool)}
	for _, group := range slices.Sorted(maps.Keys(t.groups)) {
		p := newPile(t.groups[group])
		b.of[group] = p
		if p.best = b.bound(p.counts); p.best.halves > 0 {
			p.slots = make([][]*slot, len(b.sids))
			b.groups = append(b.groups, p)
		}
	}
	b.all.slots = make([][]*slot, len(b.sids))
	for k, count := range t.all {
		b.all.slots[k] = make([]*slot, 0, count)
	}
	for i, s := range t.slots {
		k := t.holders[i]
		if s.bound || k < 0 {
			continue
		}
		h := s.mine
		// Our slots count if they can be offered now, the others' always, also the slots that are on
		// offer to them: whoever has not taken them yet gives as much as those who have. Otherwise each
		// instance that is among the first to take its offers gives enough for all.
		if h != nil && (!h.gained || s.op != idle) || h == nil && (s.isTaking() || s.rec.Owner == (Member{}) && s.rec.Offer == "") {
			continue
		}
		b.all.slots[k] = append(b.all.slots[k], s)
		if p := b.of[s.group]; p != nil && p.slots != nil {
			p.slots[k] = append(p.slots[k], s)
		}
	}
	return b
}

func newPile(counts []int) *pile {
	n := len(counts)
	thrice := slices.Concat(counts, counts, counts)
	return &pile{counts: thrice[:n], gives: thrice[n : 2*n], takes: thrice[2*n:], scans: make(map[[2]int]*scan)}
}

// gain is by how much the sum decreases when from, which has gives[from] slots,
// gives one to an instance that has takes[to].
func (b *balance) gain(gives, takes []int, from, to int) ratio {
	return ratio{2*gives[from] - 1, b.weight[from]}.minus(ratio{2*takes[to] + 1, b.weight[to]})
}

// bound is the gain between the instance with most and that with fewest slots: an
// upper bound that quickly rules out the groups that are even already.
func (b *balance) bound(counts []int) ratio {
	most, least := 0, 0
	for k := range counts {
		if b.gain(counts, counts, k, 0).compare(b.gain(counts, counts, most, 0)) > 0 {
			most = k
		}
		if b.gain(counts, counts, 0, k).compare(b.gain(counts, counts, 0, least)) > 0 {
			least = k
		}
	}
	return b.gain(counts, counts, most, least)
}

// next finds the move with the largest gain for a group. If no group can become
// more even, it finds the move with the largest gain for all slots.
func (b *balance) next() move {
	for len(b.groups) > 0 {
		first := 0
		for k, p := range b.groups {
			if p.best.compare(b.groups[first].best) > 0 {
				first = k
			}
		}
		p := b.groups[first]
		found := b.find(p)
		switch {
		case found.slot == nil:
			b.groups = slices.Delete(b.groups, first, first+1)
		case found.gain.compare(p.best) < 0:
			p.best = found.gain // another group may come first
		default:
			return found
		}
	}
	return b.find(b.all)
}

// find finds the move with the largest gain for p, and among equals the one with
// the largest gain for all slots.
func (b *balance) find(p *pile) move {
	for {
		var best move
		var bestOfAll ratio
		found := false
		for from, slots := range p.slots {
			for to := len(b.sids) - 1; to >= 0 && len(slots) > 0; to-- {
				full := b.limits[to] > 0 && b.all.takes[to] >= b.limits[to]
				if full || b.gain(p.gives, p.takes, from, to).halves <= 0 || p.isBarren(from, to) {
					continue
				}
				gain, ofAll := b.gain(p.counts, p.counts, from, to), b.gain(b.all.counts, b.all.counts, from, to)
				if !found || cmp.Or(gain.compare(best.gain), ofAll.compare(bestOfAll)) > 0 {
					best, bestOfAll, found = move{from: from, to: to, gain: gain}, ofAll, true
				}
			}
		}
		if !found {
			return move{}
		}
		if best.slot = b.movable(p, best.from, best.to); best.slot != nil {
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
func (b *balance) movable(p *pile, from, to int) *slot {
	c := p.scans[[2]int{from, to}]
	if c == nil {
		c = new(scan)
		p.scans[[2]int{from, to}] = c
	}
	for ; c.pass < passes; c.pass, c.next = c.pass+1, 0 {
		for ; c.next < len(p.slots[from]); c.next++ {
			b.walked++
			if s := p.slots[from][c.next]; b.canMove(s, from, to, c.pass) {
				return s
			}
		}
	}
	return nil
}

// canMove reports whether a slot can be moved, in that pass of a scan.
func (b *balance) canMove(s *slot, from, to, pass int) bool {
	if group := b.of[s.group]; group != nil && b.gain(group.gives, group.takes, from, to).halves < 0 {
		return false
	}
	if b.spent[s] || !slices.Contains(b.takers(s).at, to) {
		return false
	}
	switch {
	case s.mine != nil && s.busy && s.always:
		b.heldUp = true
		return pass == passAlways || pass == passEvicted && s.evicted
	case pass != passIdle:
		return false
	case s.mine != nil && (s.busy || b.soon != nil && b.soon(s.id)):
		b.heldUp, b.spent[s] = true, true
		return false
	}
	return true
}

// make applies a move to the counts.
func (b *balance) make(next move) {
	for _, p := range []*pile{b.all, b.of[next.slot.group]} {
		if p != nil {
			p.counts[next.from]--
			p.counts[next.to]++
			p.gives[next.from]--
			p.takes[next.to]++
			p.best = b.bound(p.counts)
		}
	}
	b.spent[next.slot] = true
}

package lease

import (
	"cmp"
	"maps"
	"slices"
)

// ratio is a number of slots, in halves, by weight: half a slot more or less than
// an instance has. A slot moves when its owner without half of it has more by
// weight than the other with half of it, which is to say: when the sum over all
// instances of the squares of their numbers, each divided by the weight, becomes
// smaller. So moves come to an end, and none is ever taken back. Of equal weights
// that is: when the counts differ by two or more.
type ratio struct{ halves, weight int }

func (r ratio) compare(other ratio) int {
	return cmp.Compare(r.halves*other.weight, other.halves*r.weight)
}

func (m *Machine) oneMore(loads map[string]int, sid string) ratio {
	return ratio{2*loads[sid] + 1, m.weight(sid)}
}

func (m *Machine) oneLess(loads map[string]int, sid string) ratio {
	return ratio{2*loads[sid] - 1, m.weight(sid)}
}

// weight is that of an instance's share.
func (m *Machine) weight(sid string) int {
	if sid == m.cfg.Self.SID {
		return max(1, m.cfg.Weight)
	}
	return max(1, m.peers[sid].Weight)
}

// moves are those of one round, of all instances.
type moves struct {
	loads map[string]int // as they will be
	// takers is the same for who takes, but for what they give away: what somebody
	// else gives may be running there, which is not known here. To give to it
	// on account of that could go to and fro as long as the run lasts.
	takers map[string]int
	moved  map[Slot]bool
}

func (m *Machine) newMoves(now Instant) *moves {
	loads := m.loads(now)
	return &moves{loads, maps.Clone(loads), make(map[Slot]bool)}
}

// balance offers idle slots to instances that own too few. Every instance
// computes the same moves from the same records, from the one with the most by
// weight to the one with the least, and carries out its own; so the counts end
// up as even as can be with no more moves than needed. It gives nothing away
// while it reaches for a slot that it may not get.
func (m *Machine) balance(now Instant) {
	round := m.newMoves(now)
	m.heldUp = false
	for offers := 0; offers < maxOffers; {
		from, s, to := m.nextMove(round)
		if from == "" || from == m.cfg.Self.SID && m.isReaching() {
			return
		}
		round.loads[from]--
		round.loads[to]++
		round.takers[to]++
		round.moved[s.id] = true
		if from == m.cfg.Self.SID {
			m.release(s, to)
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

// nextMove finds the move that evens the counts out most, of a slot that was not
// moved yet, or from == "".
func (m *Machine) nextMove(round *moves) (from string, s *slot, to string) {
	givers := slices.Sorted(maps.Keys(round.loads))
	takers := slices.Clone(givers)
	slices.Reverse(takers)
	slices.SortStableFunc(givers, func(a, b string) int { return m.oneLess(round.loads, b).compare(m.oneLess(round.loads, a)) })
	slices.SortStableFunc(takers, func(a, b string) int { return m.oneMore(round.takers, a).compare(m.oneMore(round.takers, b)) })
	for _, hi := range givers {
		for _, lo := range takers {
			if m.oneLess(round.loads, hi).compare(m.oneMore(round.takers, lo)) <= 0 {
				break
			}
			if limit := m.peers[lo].MaxSlots; limit > 0 && round.takers[lo] >= limit {
				continue
			}
			if s := m.movable(hi, lo, round.moved); s != nil {
				return hi, s, lo
			}
		}
	}
	return "", nil, ""
}

// movable finds a slot of hi that lo can run: for ourselves an idle one that
// may be offered now, for another any that it owns.
func (m *Machine) movable(hi, lo string, moved map[Slot]bool) *slot {
	for _, s := range m.sorted() {
		if moved[s.id] || !m.isAble(s, lo) {
			continue
		}
		if hi != m.cfg.Self.SID {
			if s.rec.Owner.SID == hi {
				return s
			}
			continue
		}
		if h := s.mine; h == nil || !h.gained || s.op != idle {
			continue
		}
		if s.busy || m.cfg.Soon != nil && m.cfg.Soon(s.id) {
			m.heldUp = true
			continue
		}
		return s
	}
	return nil
}

package lease

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// assignment is the instance that is to take each free slot. Every instance assigns all free slots
// alike, so they rarely compete for one. A slot that its instance leaves free for longer than
// patience passes to the next one, in an order that differs from slot to slot.
type assignment struct {
	*tally
	shares shares
	free   []*slot
	to     []int // by free slot; -1 for none
}

// assign assigns the free slots, and adds them to the tally. Slots of groups come first, each
// group's in turn, because any slot without a group can make up for the difference. If there is not
// room for all, all slots take turns, so that no job waits for the many shards of another.
func (t *tally) assign(free []*slot) *assignment {
	a := &assignment{t, t.shares(), free, make([]int, len(free))}
	order := make([]int, len(free))
	turn := make([]int, len(free))
	ahead := make(map[string]int)
	scarce := t.isScarce()
	for k, s := range free {
		order[k] = k
		counts, grouped := t.groups[s.group]
		if !grouped {
			continue
		}
		if turn[k] = ahead[s.group] - len(t.slots); scarce {
			turn[k] = ahead[s.group] + sum(counts)
		}
		ahead[s.group]++
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), cmp.Compare(free[a].hash, free[b].hash))
	})
	for _, k := range order {
		if a.to[k] = a.assignee(free[k]); a.to[k] >= 0 {
			t.add(free[k], a.to[k])
		}
	}
	return a
}

func sum(counts []int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// ours lists the slots that this instance is to take now, beginning with those for which it comes
// first.
func (a *assignment) ours(now Instant) (ours []*slot) {
	for k, s := range a.free {
		offered := s.rec.Owner == (Member{}) && s.rec.Offer == a.sids[a.self]
		if a.to[k] == a.self || offered || now.Mono-s.freeSince > a.turn(now, s, a.to[k]) {
			ours = append(ours, s)
		}
	}
	slices.SortStableFunc(ours, func(x, y *slot) int { return cmp.Compare(a.rank(a.self, x), a.rank(a.self, y)) })
	return ours
}

// assignee chooses among the instances that can take s: those below their share, rounded down, or
// else rounded up; of a group first, and then of all slots. Among several, the slot's hash decides,
// so that the choice changes little when the group does.
func (a *assignment) assignee(s *slot) int {
	part, grouped := a.shares.groups[s.group]
	best, bestClass, bestRank := -1, 0, uint64(0)
	for _, k := range a.takers(s).at {
		if !a.mayTake(s, k) {
			continue
		}
		class := level(a.all[k], a.shares.all[k])
		if grouped {
			class += 4 * level(a.groups[s.group][k], part[k])
		}
		rank := a.rank(k, s)
		better := best < 0 || class < bestClass
		if !better && class == bestClass {
			heavier := 0
			if class%4 == full || class/4 == full {
				heavier = a.oneMore(s, k, best)
			}
			better = heavier < 0 || heavier == 0 && rank > bestRank
		}
		if better {
			best, bestClass, bestRank = k, class, rank
		}
	}
	return best
}

const full = 2

// level is 0 for a count below the share rounded down, 1 below the share rounded up, and otherwise
// full.
func level(count int, share float64) int {
	switch count := float64(count); {
	case count < math.Floor(share+rounding):
		return 0
	case count < math.Ceil(share-rounding):
		return 1
	}
	return full
}

const rounding = 1e-9 // nine times one third is three

// mayTake reports whether the instance at k, one that takes slots, has room for s, and has neither
// ignored an offer of it nor fallen silent as its owner.
func (a *assignment) mayTake(s *slot, k int) bool {
	sid := a.sids[k]
	silent := sid == s.rec.Owner.SID && a.peers.lives(s.rec.Owner)
	ignored := sid == s.rec.Offer && k != a.self
	return !silent && !ignored && !a.isFull(k)
}

// maxTurns limits how many sync periods a slot waits for one instance after the other: most of them
// must hang for it to come to that.
const maxTurns = 4

// turn is how long s is left to others, when the instance at to was the first to take it: patience
// for that one, and a sync period for each other one before us in the order of the slot's hash.
func (a *assignment) turn(now Instant, s *slot, to int) time.Duration {
	rank, before := a.rank(a.self, s), 1
	for _, k := range a.takers(s).at {
		if k != to && a.rank(k, s) > rank && a.mayTake(s, k) {
			before++
		}
	}
	if s.rec.Owner == (Member{}) && s.rec.Offer != "" {
		before++ // it was free for a sync period when its offer ended
	}
	others := time.Duration(min(before, maxTurns)-1) * a.peers.syncPeriod
	if to < 0 {
		return others + a.peers.syncPeriod
	}
	return others + a.peers.patience(now, s.freeSince, a.sids[to])
}

// isScarce reports whether some slots must stay free because every instance has a limit.
func (t *tally) isScarce() bool {
	room := sum(t.limits)
	for _, s := range t.slots {
		room -= s.counts()
	}
	return room < 0 && !slices.Contains(t.limits, 0)
}

// shares are how many slots each instance should own, in all and of each group. Each slot counts as
// the instance's fraction of the weights of all instances that can run it. The order is the
// tally's.
type shares struct {
	all    []float64
	groups map[string][]float64
}

func (t *tally) shares() shares {
	out := shares{make([]float64, len(t.sids)), make(map[string][]float64)}
	for group := range t.groups {
		out.groups[group] = make([]float64, len(t.sids))
	}
	count := make(map[*takers]map[string]int) // slots by who can run them and by group
	for _, s := range t.slots {
		if s.bound {
			continue
		}
		of := t.takers(s)
		if count[of] == nil {
			count[of] = make(map[string]int)
		}
		count[of][s.group]++
	}
	for of, slots := range count {
		for group, n := range slots {
			counts := out.groups[group]
			for _, k := range of.at {
				part := float64(n) * float64(t.weight[k]) / float64(of.weight)
				out.all[k] += part
				if counts != nil {
					counts[k] += part
				}
			}
		}
	}
	return out
}

package lease

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
)

// adopt takes the free slots that are this instance's to take. Every instance assigns all free
// slots alike, so they rarely compete for one. A slot that its instance leaves free for longer than
// patience passes to the next one, in an order that differs from slot to slot.
func (m *Machine) adopt(now Instant) {
	free := m.free(now)
	for _, s := range m.sorted() {
		if s.bound && s.isFree(now, m.peers) && s.mayTakeNow() {
			m.takeAsRead(s)
		}
	}
	if len(free) == 0 {
		return
	}
	loads := m.loads(now)
	self := loads.at[m.cfg.Self.SID]
	owned := m.Owned()
	var ours []*slot
	for k, to := range m.assign(free, loads) {
		s := free[k]
		offered := s.rec.Owner == (Member{}) && s.rec.Offer == m.cfg.Self.SID
		if to == self || offered || now.Mono-s.freeSince > m.turn(now, s, to, loads) {
			ours = append(ours, s)
		}
	}
	slices.SortStableFunc(ours, func(a, b *slot) int { return cmp.Compare(m.rank(self, a, loads), m.rank(self, b, loads)) })
	for _, s := range ours {
		if !m.hasRoom(owned) {
			return
		}
		if s.mayTakeNow() {
			owned++
			m.takeAsRead(s)
		}
	}
}

// takeAsRead takes s if it was read in this round: a job that was deleted and submitted again may
// have the same versions.
func (m *Machine) takeAsRead(s *slot) {
	if s.readAt < m.peers.roundAt {
		m.markDirty(s)
		m.peers.ask(s.livingOwner(m.peers))
	} else {
		m.take(s)
	}
}

// free lists the slots that the rules allow taking, whichever instance is to take them, but for
// those that are bound to this one.
func (m *Machine) free(now Instant) (free []*slot) {
	for _, s := range m.sorted() {
		if !s.bound && s.isFree(now, m.peers) {
			free = append(free, s)
		}
	}
	return free
}

// assign returns, for each free slot, the index in loads of the instance that is to take it, or -1,
// and adds it to the loads. Slots of groups come first, those of a group in turn, because any slot
// without a group can make up for the difference. If there is not room for all, all slots take
// turns, so that no job waits for the many shards of another.
func (m *Machine) assign(free []*slot, loads *tally) []int {
	shares := m.shares(loads)
	order := make([]int, len(free))
	turn := make([]int, len(free))
	ahead := make(map[string]int)
	scarce := m.isScarce(loads)
	for k, s := range free {
		order[k] = k
		counts, grouped := loads.groups[s.group]
		if !grouped {
			continue
		}
		if turn[k] = ahead[s.group]; scarce {
			turn[k] += sum(counts)
		} else {
			turn[k] -= len(m.slots)
		}
		ahead[s.group]++
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), cmp.Compare(free[a].hash, free[b].hash))
	})
	to := make([]int, len(free))
	for _, k := range order {
		if to[k] = m.assignee(free[k], loads, shares); to[k] >= 0 {
			loads.add(free[k], to[k])
		}
	}
	return to
}

// isScarce reports whether some slots must stay free because every instance has a limit.
func (m *Machine) isScarce(loads *tally) bool {
	room, slots := 0, 0
	for _, s := range m.slots {
		slots += s.counts()
	}
	for k := range loads.sids {
		if loads.limits[k] == 0 {
			return false
		}
		room += loads.limits[k]
	}
	return room < slots
}

func sum(counts []int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// assignee chooses among the instances that can take s: those below their share, rounded down, or
// else rounded up; of a group first, and then of all slots. Among several, the slot's hash
// decides, so that the choice changes little when the group does.
func (m *Machine) assignee(s *slot, loads *tally, shares shares) int {
	part, grouped := shares.groups[s.group]
	best, bestClass, bestRank := -1, 0, uint64(0)
	for _, k := range loads.takers(m, s).at {
		if !m.mayTake(s, k, loads) {
			continue
		}
		class := level(loads.all[k], shares.all[k])
		if grouped {
			class += 4 * level(loads.groups[s.group][k], part[k])
		}
		rank := m.rank(k, s, loads)
		better := best < 0 || class < bestClass
		if !better && class == bestClass {
			heavier := 0
			if class%4 == full || class/4 == full {
				heavier = loads.oneMore(s, k, best)
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
	switch {
	case count < roundDown(share):
		return 0
	case count < roundUp(share):
		return 1
	}
	return full
}

// mayTake reports whether the instance at k of loads, one that takes slots, has room for s, and has
// neither ignored an offer of it nor fallen silent as its owner.
func (m *Machine) mayTake(s *slot, k int, loads *tally) bool {
	sid := loads.sids[k]
	silent := sid == s.rec.Owner.SID && m.peers.lives(s.rec.Owner)
	ignored := sid == s.rec.Offer && sid != m.cfg.Self.SID
	return !silent && !ignored && !loads.isFull(k)
}

// maxTurns limits how many sync periods a slot waits for one instance after the other: most of them
// must hang for it to come to that.
const maxTurns = 4

// turn is how long s is left to others, when the instance at to was the first to take it: patience
// for that one, and a sync period for each other one before us in the order of the slot's hash.
func (m *Machine) turn(now Instant, s *slot, to int, loads *tally) time.Duration {
	self := loads.at[m.cfg.Self.SID]
	rank, before := m.rank(self, s, loads), 1
	for _, k := range loads.takers(m, s).at {
		if k != to && m.rank(k, s, loads) > rank && m.mayTake(s, k, loads) {
			before++
		}
	}
	if s.rec.Owner == (Member{}) && s.rec.Offer != "" {
		before++ // it was free for a sync period when its offer ended
	}
	others := time.Duration(min(before, maxTurns)-1) * m.peers.syncPeriod
	if to < 0 {
		return others + m.peers.syncPeriod
	}
	return others + m.peers.patience(now, s.freeSince, loads.sids[to])
}

// rank orders the instances for a slot, and the slots for an instance, at random but alike
// everywhere.
func (m *Machine) rank(k int, s *slot, loads *tally) uint64 {
	return preference.Of(loads.hashes[k], s.hash)
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
	count := make(map[*takers]map[string]int) // slots by who can run them and by group
	for _, s := range m.slots {
		if s.bound {
			continue
		}
		of := loads.takers(m, s)
		if count[of] == nil {
			count[of] = make(map[string]int)
		}
		count[of][s.group]++
	}
	for of, slots := range count {
		for group, n := range slots {
			counts := out.groups[group]
			for _, k := range of.at {
				part := float64(n) * float64(loads.weight[k]) / float64(of.weight)
				out.all[k] += part
				if counts != nil {
					counts[k] += part
				}
			}
		}
	}
	return out
}

const rounding = 1e-9 // nine times one third is three

func roundUp(share float64) int   { return int(math.Ceil(share - rounding)) }
func roundDown(share float64) int { return int(math.Floor(share + rounding)) }

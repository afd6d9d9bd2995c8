package lease_test

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// mostKept returns how many slots can keep their owner in before if finally the instances sids own
// all slots of groups, each group as even as possible, and all slots as well. The group "" has the
// slots without a group.
//
// It computes a flow of slots from the groups to the instances of maximum value: large values
// enforce evenness, and a small one rewards a slot that is kept.
func mostKept(groups map[string][]lease.Slot, before map[lease.Slot]string, sids []string) int {
	const must = 10_000
	f := flow{nodes: 2 + len(groups) + len(sids)}
	all, group := 0, 0
	for name, slots := range groups {
		node := 2 + len(sids) + group
		group++
		all += len(slots)
		kept := make(map[string]int)
		for _, slot := range slots {
			f.add(0, node, 0)
			kept[before[slot]]++
		}
		for k, sid := range sids {
			least, most := len(slots)/len(sids), (len(slots)+len(sids)-1)/len(sids)
			if name == "" {
				least, most = 0, len(slots)
			}
			for n := range most {
				f.add(node, 2+k, must*one(n < least)+one(n < kept[sid]))
			}
		}
	}
	for k := range sids {
		for n := range (all + len(sids) - 1) / len(sids) {
			f.add(2+k, 1, must*one(n < all/len(sids)))
		}
	}
	worth := 0
	for range all {
		worth += f.augment()
	}
	return worth % must
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// flow is a network from node 0 to node 1 whose arcs carry one unit each.
type flow struct {
	nodes int
	arcs  []arc // arcs k and k^1 are opposite
}

type arc struct {
	from, to, worth int
	open            bool
}

func (f *flow) add(from, to, worth int) {
	f.arcs = append(f.arcs, arc{from, to, worth, true}, arc{to, from, -worth, false})
}

// augment sends one more unit and returns its value.
func (f *flow) augment() int {
	const unreached = -1 << 40
	worth, via := slices.Repeat([]int{unreached}, f.nodes), make([]int, f.nodes)
	worth[0] = 0
	for changed := true; changed; {
		changed = false
		for k, a := range f.arcs {
			if a.open && worth[a.from] != unreached && worth[a.from]+a.worth > worth[a.to] {
				worth[a.to], via[a.to], changed = worth[a.from]+a.worth, k, true
			}
		}
	}
	for node := 1; node != 0; node = f.arcs[via[node]].from {
		f.arcs[via[node]].open, f.arcs[via[node]^1].open = false, true
	}
	return worth[1]
}

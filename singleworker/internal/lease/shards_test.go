package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// shard assigns some slots to groups.
func (g *randomGroup) shard() {
	jobs := 1 + g.rng.IntN(6)
	alone := g.rng.IntN(3)
	for _, slot := range g.names {
		if k := g.rng.IntN(jobs + alone); k < jobs {
			g.group[slot] = fmt.Sprintf("g%d", k)
		}
	}
}

// shards returns the slots of each group of two or more, and all others under "".
func (c *company) shards() map[string][]lease.Slot {
	out := make(map[string][]lease.Slot)
	for _, slot := range c.names {
		out[c.group[slot]] = append(out[c.group[slot]], slot)
	}
	for name, slots := range out {
		if name != "" && len(slots) == 1 {
			out[""] = append(out[""], slots...)
			delete(out, name)
		}
	}
	return out
}

// gains are positive if a move of slot makes its group and all slots more even, and zero if as
// even.
func (g *randomGroup) gains(slot lease.Slot, from, to string, held map[lease.Slot]string) (group, all int) {
	gain := func(slots []lease.Slot) int {
		gives, takes := 0, 0
		for _, other := range slots {
			gives += one(held[other] == from)
			takes += one(held[other] == to)
		}
		return (2*gives-1)*g.weight(to) - (2*takes+1)*g.weight(from)
	}
	if name := g.group[slot]; name != "" {
		if slots := g.shards()[name]; len(slots) > 0 {
			group = gain(slots)
		}
	}
	return group, gain(g.names)
}

// checkOffer checks that an offered slot makes its group more even, or keeps it as even and makes
// all slots more even, as far as the giver knows.
func (g *randomGroup) checkOffer(slot lease.Slot, from, to string) {
	g.offered[slot]++
	if group, all := g.gains(slot, from, to, g.seen[from]); group < 0 || group == 0 && all <= 0 {
		g.failf("%s of group %q moves from %s to %s: that is worth %d, and %d of all slots", slot, g.group[slot], from, to, group, all)
	}
}

// isPlain reports whether nothing prevents evenness: the instances are alike, and nothing runs.
func (g *randomGroup) isPlain() bool {
	return g.alike && len(g.weights) == 0 && len(g.busy) == 0 && len(g.soon) == 0
}

// checkShards checks the counts if all instances are alike.
func (g *randomGroup) checkShards() {
	if !g.isPlain() {
		return
	}
	even := func(name string, slots []lease.Slot) {
		counts := make(map[string]int)
		for _, sid := range g.open() {
			counts[sid] = 0
		}
		for _, slot := range slots {
			counts[g.slots[slot].Owner.SID]++
		}
		numbers := slices.Sorted(maps.Values(counts))
		if len(g.open()) > 0 && numbers[len(numbers)-1] > numbers[0]+1 {
			g.failf("%s: %v", name, counts)
		}
	}
	even("all slots", g.names)
	for name, slots := range g.shards() {
		if name != "" {
			even("group "+name, slots)
		}
	}
}

func (c *company) open() []string {
	return slices.DeleteFunc(slices.Clone(c.sids), func(sid string) bool { return c.peers[sid].Closed })
}

// checkLeast checks, if nothing prevents evenness, that no slot moved twice, and that hardly more
// owned slots than needed changed owner: at most one more after a join or drain, and one more for
// each other instance after a death.
func (g *randomGroup) checkLeast(what string, owners map[lease.Slot]string, moves int) {
	if !g.isPlain() || len(g.open()) == 0 || len(owners) == 0 {
		return
	}
	for slot, n := range g.offered {
		if n > 1 {
			g.failf("%s is moved %d times", slot, n)
		}
	}
	most := len(owners) - mostKept(g.shards(), owners, g.open()) + 1
	if what == "die" {
		most += len(g.open()) - 1
	}
	if moves > most {
		g.failf("%s: %d changes of owner, want at most %d", what, moves, most)
	}
}

// TestSettling: instances that already own all slots in a random distribution balance them with at
// most three more moves than needed, each an improvement.
func TestSettling(t *testing.T) {
	t.Parallel()
	simkit.Test(t, groups, playing(func(g *randomGroup) {
		g.shard()
		g.mixUp(g.rng.IntN(2) == 0)
		owners := g.owners()
		g.settle(9)
		if most := len(owners) - mostKept(g.shards(), owners, g.open()) + 3; g.isPlain() && g.takes > most {
			g.failf("%d changes of owner, want at most %d", g.takes, most)
		}
		g.check()
	}), nil)
}

// mixUp starts instances and assigns slots to random able ones, unevenly.
func (g *randomGroup) mixUp(weighted bool) {
	for range 2 + g.rng.IntN(6) {
		g.start(weighted)
	}
	load := make(map[string]int)
	for _, slot := range g.names {
		for _, k := range g.rng.Perm(len(g.sids)) {
			if sid := g.sids[k*g.rng.IntN(2)]; g.canTake(sid, slot, load) {
				load[sid]++
				g.own(slot, sid)
				break
			}
		}
	}
}

// TestMassAdoption: instances start at once with all slots free. All slots are taken at once, and
// at most two moves per instance balance them.
func TestMassAdoption(t *testing.T) {
	t.Parallel()
	simkit.Test(t, groups, playing(func(g *randomGroup) {
		g.alike = true
		g.shard()
		for range 2 + g.rng.IntN(6) {
			g.start(g.seed%3 == 0)
		}
		if g.settle(0); len(g.owners()) < len(g.names) {
			g.failf("%d of %d owned at once", len(g.owners()), len(g.names))
		}
		g.settle(6)
		if moves := g.takes - len(g.names); g.isPlain() && moves > 2*len(g.sids) {
			g.failf("%d changes of owner after the adoption", moves)
		}
		g.check()
	}), nil)
}

// TestGroupsOfOne shows that the only slot of a group counts as having no group.
func TestGroupsOfOne(t *testing.T) {
	t.Parallel()
	simkit.Search(simkit.Seeds(groups/4), func(seed uint64) bool {
		var stories, orders [2]string
		for k := range stories {
			g := newRandomGroup(seed)
			for n, slot := range g.names {
				if k == 1 && n%3 > 0 {
					g.group[slot] = fmt.Sprintf("g%d", n)
				}
			}
			g.onTake = func(slot lease.Slot) { orders[k] += " " + string(slot) }
			g.Record()
			g.happenings()
			stories[k] = g.Tell(1000)
		}
		if stories[0] != stories[1] || orders[0] != orders[1] {
			t.Errorf("seed %d:\n%s\nin groups of one:\n%s", seed, stories[0], stories[1])
			return true
		}
		return false
	})
}

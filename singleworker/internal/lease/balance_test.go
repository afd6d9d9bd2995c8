package lease_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// groups is the number of random groups in a test of balance.
const groups = 100

// TestBalance makes instances with random weights, limits and handlers join, die, drain and come
// back in random order, on a network without faults. It checks that afterwards
//
//  1. no slot is free that an open instance could take;
//  2. no instance has more than its limit, or a slot that it cannot run;
//  3. no slot could move between two instances so that its group becomes more even, or stays as even
//     and all slots become more even: if all instances are alike, both counts differ by at most one;
//  4. nothing moves any more: there is no ping-pong;
//
// that no slot was given away during a run, or moved for evenness shortly before a tick; and, in
// groups whose instances have the same handlers and no limits, that there were no more changes of
// owner than needed:
//
//  5. for a join or undrain: the slots that the instance then owns;
//  6. for a drain: the slots that the instance owned;
//  7. for a death: the slots that the instance owned, and at most one more for each of the others, since
//     shares are rounded up so that no slot waits.
//
// For groups, see [randomGroup.checkLeast].
func TestBalance(t *testing.T) {
	t.Parallel()
	simkit.Test(t, groups, playing(func(g *randomGroup) {
		if g.seed%2 == 1 {
			g.shard()
		}
		g.happenings()
	}), nil)
}

// randomGroup is a company with random events.
type randomGroup struct {
	simkit.Story
	*company
	seed    uint64
	rng     *rand.Rand
	alike   bool // the same handlers, no limits
	limits  map[string]int
	closed  map[string]bool
	offered map[lease.Slot]int // number of offers since the last event
	started int
	play    func(*randomGroup)
}

// playing is a set of groups on which play acts.
func playing(play func(*randomGroup)) func(seed uint64) *randomGroup {
	return func(seed uint64) *randomGroup {
		g := newRandomGroup(seed)
		g.play = play
		return g
	}
}

func newRandomGroup(seed uint64) *randomGroup {
	rng := rand.New(rand.NewPCG(seed, 7))
	g := &randomGroup{
		company: newCompany(1 + rng.IntN(40)), seed: seed, rng: rng, alike: rng.IntN(2) == 0,
		limits: map[string]int{}, closed: map[string]bool{}, offered: map[lease.Slot]int{},
	}
	g.onOffer = g.checkOffer
	return g
}

// Run calls play and reports violations of the machines.
func (g *randomGroup) Run() {
	if g.play(g); g.broken != "" {
		g.failf("%s", g.broken)
	}
}

// happenings makes a dozen random events happen.
func (g *randomGroup) happenings() {
	weighted := g.rng.IntN(2) == 0
	for range 12 {
		before, owners, takes := g.load(), g.owners(), g.takes
		free := len(g.names) - total(before)
		clear(g.offered)
		what, sid := g.happen(weighted)
		g.settle(9) // an instance that ignored an offer, because it was full, is skipped for 8
		g.Note("", fmt.Sprintf("%s %s: %s, %d takes", what, sid, g.counts(), g.takes-takes))
		if len(g.busy) == 0 && len(g.soon) == 0 {
			g.check()
			g.checkMoves(what, sid, before, g.takes-takes-free)
			g.checkLeast(what, owners, g.takes-takes-free)
		}
		clear(g.offered)
		g.endRuns()
		g.settle(6)
		g.check()
		settled := g.takes
		if g.settle(6); g.takes != settled {
			g.failf("%d more changes of owner although nothing happens", g.takes-settled)
		}
		if g.Failure() != "" || g.broken != "" {
			return
		}
	}
}

func (g *randomGroup) failf(format string, args ...any) { g.Fail("", fmt.Sprintf(format, args...)) }

func total(load map[string]int) (sum int) {
	for _, n := range load {
		sum += n
	}
	return sum
}

// happen makes one random event happen.
func (g *randomGroup) happen(weighted bool) (what, sid string) {
	if g.rng.IntN(3) == 0 {
		for _, slot := range g.names {
			if g.slots[slot].Owner.SID != "" && g.rng.IntN(4) == 0 {
				g.setBusy(slot, true)
			}
			g.soon[slot] = g.rng.IntN(4) == 0
		}
	}
	if len(g.sids) > 0 {
		sid = g.sids[g.rng.IntN(len(g.sids))]
	}
	switch n := g.rng.IntN(10); {
	case sid == "" || n < 4 && len(g.sids) < 8:
		sid = g.start(weighted)
		return "join", sid
	case n < 7:
		g.die(sid)
		delete(g.closed, sid)
		return "die", sid
	case g.closed[sid]:
		g.closed[sid] = false
		g.undrain(sid)
		return "undrain", sid
	default:
		g.closed[sid] = true
		g.drain(sid)
		return "drain", sid
	}
}

// start makes an instance join.
func (g *randomGroup) start(weighted bool) string {
	sid := fmt.Sprintf("i%d", g.started)
	g.started++
	if weighted {
		g.weights[sid] = 1 + g.rng.IntN(6)
	}
	var jobs []int
	if !g.alike {
		jobs = g.rng.Perm(len(g.names))[:g.rng.IntN(len(g.names)+1)]
		jobs = append(jobs, 0) // not nil
		if g.rng.IntN(3) == 0 {
			g.limits[sid] = 1 + g.rng.IntN(9)
		}
	}
	g.join(sid, g.limits[sid], jobs...)
	return sid
}

func (g *randomGroup) endRuns() {
	clear(g.soon)
	for _, slot := range g.names {
		if g.busy[slot] != "" {
			g.setBusy(slot, false)
		}
	}
}

// owners returns the owners of the owned slots.
func (g *randomGroup) owners() map[lease.Slot]string {
	owners := make(map[lease.Slot]string)
	for _, slot := range g.names {
		if sid := g.slots[slot].Owner.SID; slices.Contains(g.sids, sid) {
			owners[slot] = sid
		}
	}
	return owners
}

func (g *randomGroup) load() map[string]int {
	load := make(map[string]int)
	for _, sid := range g.owners() {
		load[sid]++
	}
	return load
}

// canTake reports whether sid may own one more slot, and this one.
func (g *randomGroup) canTake(sid string, slot lease.Slot, load map[string]int) bool {
	return !g.closed[sid] && slices.Contains(g.able[slot], sid) && (g.limits[sid] == 0 || load[sid] < g.limits[sid])
}

func (g *randomGroup) weight(sid string) int { return max(1, g.weights[sid]) }

// check checks 1 to 3.
func (g *randomGroup) check() {
	g.checkShards()
	if g.broken != "" {
		g.failf("%s", g.broken)
	}
	load := g.load()
	for _, slot := range g.names {
		owner := g.slots[slot].Owner.SID
		owned := slices.Contains(g.sids, owner)
		if owned && g.busy[slot] != owner && (g.closed[owner] || !slices.Contains(g.able[slot], owner) || g.limits[owner] > 0 && load[owner] > g.limits[owner]) {
			g.failf("%s owns %s, and must not: closed %v, limit %d", owner, slot, g.closed[owner], g.limits[owner])
		}
		for _, sid := range g.sids {
			switch {
			case sid == owner || !g.canTake(sid, slot, load):
			case !owned:
				g.failf("%s is free, and %s could take it", slot, sid)
			case len(g.busy) == 0:
				if group, all := g.gains(slot, owner, sid, g.owners()); group > 0 || group == 0 && all > 0 {
					g.failf("%s owns %d at weight %d, and %s, which can run %s of group %q, %d at weight %d", owner,
						load[owner], g.weight(owner), sid, slot, g.group[slot], load[sid], g.weight(sid))
				}
			}
		}
	}
}

// checkMoves checks 5 to 7 by the number of owned slots that changed owner.
func (g *randomGroup) checkMoves(what, sid string, before map[string]int, moves int) {
	if !g.alike || len(before) == 0 || len(g.group) > 0 {
		return
	}
	most := before[sid]
	switch what {
	case "join", "undrain":
		most = g.load()[sid]
	case "die":
		most += len(g.sids)
	}
	if moves > most {
		g.failf("%s of %s: %d changes of owner, want at most %d", what, sid, moves, most)
	}
}

// TestAvalanche: five of six instances die at once, and the last one takes slots up to its limit.
func TestAvalanche(t *testing.T) {
	t.Parallel()
	c := newCompany(60)
	for k := range 6 {
		c.join(fmt.Sprintf("i%d", k), 25)
	}
	c.settle(3)
	if got := c.counts(); got != "i0=10 i1=10 i2=10 i3=10 i4=10 i5=10 free=0" {
		t.Fatal(got)
	}
	for k := range 5 {
		c.die(fmt.Sprintf("i%d", k))
	}
	c.settle(5)
	if got := c.counts(); got != "i5=25 free=35" {
		t.Errorf("%s, want its limit of 25", got)
	}
	c.join("i6", 0)
	c.settle(5)
	if got := c.counts(); got != "i5=25 i6=35 free=0" {
		t.Errorf("%s after another has joined", got)
	}
}

package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Slots that always run are shared as evenly as idle ones: a run is ended only for its slot to
// move, and none is when nothing has happened.
func TestAlwaysSlotsAreEven(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCompany(1 + rng.IntN(40))
		c.always = true
		c.join("a", 0)
		var live []string
		live = append(live, "a")
		for k := range 8 {
			before, takes := c.evictions, c.takes
			what := "joins"
			free := 0
			for _, slot := range c.names {
				if c.slots[slot].Owner.SID == "" {
					free++
				}
			}
			switch n := rng.IntN(3); {
			case n == 0 && len(live) > 1:
				what = "dies"
				for _, slot := range c.names {
					if c.slots[slot].Owner.SID == live[0] {
						free++
					}
				}
				c.die(live[0])
				live = live[1:]
			case n == 1 && len(live) > 1:
				what = "is drained"
				c.drain(live[0])
				live = live[1:]
			default:
				live = append(live, fmt.Sprintf("b%d", k))
				c.join(live[len(live)-1], 0)
			}
			c.settle(12)
			if c.broken != "" {
				t.Fatalf("seed %d: %s", seed, c.broken)
			}
			least, most := len(c.names), 0
			for _, sid := range live {
				n := 0
				for _, slot := range c.names {
					if c.slots[slot].Owner.SID == sid {
						n++
					}
				}
				least, most = min(least, n), max(most, n)
			}
			evicted, taken := c.evictions-before, c.takes-takes
			if most-least > 1 || evicted > taken-free || len(c.busy) != len(c.names) {
				t.Fatalf("seed %d: one %s: %s, %d runs ended, %d slots taken, %d of them free, %d of %d run", seed, what, c.counts(), evicted, taken, free,
					len(c.busy), len(c.names))
			}
			before = c.evictions
			if c.settle(6); c.evictions != before {
				t.Fatalf("seed %d: %d runs ended although nothing happens", seed, c.evictions-before)
			}
		}
	}
}

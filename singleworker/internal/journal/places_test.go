package journal

import (
	"math/bits"
	"testing"
)

// Two instances claim places of a limit that was lowered, by readings that are as old as they may
// be. Whatever they do, and in whatever order, no claim exceeds the limit, and by a reading that is
// not old as many can be claimed as it allows.
func TestUsable(t *testing.T) {
	const places, instances = 5, 2
	type set uint8 // of places
	type state struct {
		held set
		seen [instances]set
	}
	may := func(limit int, seen set) set {
		held := make(map[int]bool)
		for k := range places {
			if seen&(1<<k) != 0 {
				held[k] = true
			}
		}
		return 1<<usable(limit, held) - 1
	}
	size := func(s set) int { return bits.OnesCount8(uint8(s)) }
	for limit := range places {
		explored := make(map[state]bool)
		var next []state
		visit := func(s state) {
			if !explored[s] {
				explored[s] = true
				next = append(next, s)
			}
		}
		for held := range set(1 << places) { // when it is lowered
			visit(state{held, [instances]set{held, held}})
		}
		for len(next) > 0 {
			s := next[len(next)-1]
			next = next[:len(next)-1]
			if free, want := size(may(limit, s.held)&^s.held), max(0, limit-size(s.held)); free != want {
				t.Fatalf("limit %d: %d places can be claimed beside %05b, want %d", limit, free, s.held, want)
			}
			for i := range s.seen {
				looks := s
				looks.seen[i] = s.held
				visit(looks)
				for k := range places {
					place := set(1 << k)
					to := s
					switch {
					case s.held&place != 0: // it is given back by i
						to.held &^= place
						to.seen[i] &^= place
						visit(to)
						other := to // by an instance that has seen neither
						other.seen[i] = s.seen[i]
						visit(other)
					case may(limit, s.seen[i])&^s.seen[i]&place != 0:
						to.held |= place
						to.seen[i] |= place
						if size(to.held) > limit {
							t.Fatalf("limit %d: %05b are held after a claim by one that has seen %05b", limit, to.held, s.seen[i])
						}
						visit(to)
					}
				}
			}
		}
		if len(explored) < 1000 {
			t.Errorf("limit %d: %d states", limit, len(explored))
		}
	}
}

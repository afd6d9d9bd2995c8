package sim

import (
	"flag"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

var againFlag = flag.Int("sim.again", 0, "how many times to run the first seed of each breach again; 0: one seed, twice")

// A seed that shows a violation shows it again, in 19 of 20 runs at least. With -sim.again=20 it is
// counted for every breach, or for -sim.breach alone.
func TestViolationComesAgain(t *testing.T) {
	t.Parallel()
	const within = 400
	names, runs := []string{"dormant"}, 2
	if *againFlag > 0 {
		names, runs = slices.Sorted(maps.Keys(breaches)), *againFlag
	}
	if b := *breachFlag; b != "" {
		names = []string{b}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planted := inRandomSeeds[name].want // what else a breach breaks, it breaks by chance
			if planted == nil {
				planted = everyProperty
			}
			var mu sync.Mutex
			properties := make(map[uint64]int) // by seed
			seed, found := simkit.Search(within, func(seed uint64) bool {
				v, is := breached(t, seed, breaches[name], planted)
				mu.Lock()
				defer mu.Unlock()
				properties[seed] = v.property
				return is
			})
			if !found {
				t.Fatalf("not found within %d seeds", within)
			}
			again, property := 0, properties[seed]
			for range runs {
				if _, is := breached(t, seed, breaches[name], []int{property}); is {
					again++
				}
			}
			t.Logf("breach %s, seed %d: property %d is violated again in %d of %d runs", name, seed, property, again, runs)
			if again < runs*19/20 {
				t.Errorf("the violation came again in %d of %d runs", again, runs)
			}
		})
	}
}

var everyProperty = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20}

// A step whose time is known, from an earlier run of its seed, draws the same numbers again.
func TestStepDrawsTheSameAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var drawn []uint64
		var times []time.Duration
		for range 2 {
			w := newSmall(t, 1, func(*profile) {})
			w.plan.times = times
			for range 3 {
				w.step(time.Second)
				drawn = append(drawn, w.rng.Uint64())
			}
			times = w.steps
		}
		if first, again := drawn[:3], drawn[3:]; !slices.Equal(first, again) {
			t.Errorf("the steps draw %v, and then %v", first, again)
		}
	})
}

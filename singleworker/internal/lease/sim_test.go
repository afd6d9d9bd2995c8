package lease_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/race"
)

var (
	seedFlag  = flag.Uint64("lease.seed", 0, "replay one seed of the simulation, and print its last events")
	seedsFlag = flag.Int("lease.seeds", 60/race.Factor, "how many seeds of the simulation to run")
	linesFlag = flag.Int("lease.lines", 60, "how many events to print before a failure")
)

// replay runs a seed again and returns what failed, with the events before it.
func replay(seed uint64, m mutant) string {
	w := newWorld(seed, m)
	w.tracing = true
	w.runAll()
	if w.failure == "" {
		w.failure = fmt.Sprintf("nothing amiss; all owned %v after the noise, evenly after %v", w.late, w.even)
	}
	return fmt.Sprintf("seed %d: %s\n%+v\n%s", seed, w.failure, w.profile, w.lastEvents(*linesFlag))
}

// eachSeed runs seeds 1 to n on all cores until one fails, and returns that.
func eachSeed(n int, m mutant, passed func(w *world)) (failed uint64) {
	var next, found atomic.Uint64
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1); seed <= uint64(n) && found.Load() == 0; seed = next.Add(1) {
				w := newWorld(seed, m)
				w.runAll()
				if w.failure != "" {
					found.CompareAndSwap(0, seed)
					return
				}
				mu.Lock()
				passed(w)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return found.Load()
}

// TestSimulation runs groups of 2 to 6 instances, each the real Machine with
// clocks of its own, against a model of ZooKeeper. Requests are lost, applied
// with the reply lost, or applied late; connections break; sessions expire;
// machines hang, sleep and crash; reads lag; watches are missed; jobs come and
// go; hands touch the nodes. It verifies that
//
//  1. two instances never have a valid lease on one slot, but for what the
//     package comment leaves out;
//  2. no tick is claimed twice, and none by another than the recorded owner,
//     also when sessions are ended from outside;
//  3. the token of a new owner is larger than those of all owners before;
//  4. a slot has at most one request and one heartbeat under way;
//
// and that, once the noise has stopped, within the times that ownedWithin and
// evenWithin give,
//
//  5. every job has exactly one owner, which lives, has the handler and a
//     valid lease, if there is such an instance;
//  6. instances with the same handlers and weights own the same number of slots, of all and of each
//     group, give or take one, those of different weights as many as even the numbers by weight out,
//     and from then on nothing moves (an instance that hangs for ever is offered slots again at times);
//  7. no heartbeat is left that no record backs;
//  8. an instance that drains owns nothing.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		t.Log(replay(*seedFlag, sound))
		return
	}
	steps := 0
	failed := eachSeed(*seedsFlag, sound, func(w *world) { steps += w.steps })
	if failed != 0 {
		t.Fatalf("%s\nreplay with -run TestSimulation -lease.seed=%d", replay(failed, sound), failed)
	}
	t.Logf("%d seeds, %d steps", *seedsFlag, steps)
}

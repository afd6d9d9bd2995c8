package simkit

import (
	"flag"
	"runtime"
	"sync"
	"testing"
)

var (
	allFlag   = flag.Bool("sim.all", false, "run all random scenarios, not a tenth, and the slow searches")
	shareFlag = flag.Float64("sim.share", 0, "the share of the random scenarios that run; 0: a tenth, or with -sim.all 1")
	seedsFlag = flag.Int("sim.seeds", 0, "how many seeds of a simulation to run; 0: as many as the test has")
	baseFlag  = flag.Uint64("sim.base", 1, "the first seed of a simulation")
	hugeFlag  = flag.Bool("sim.explore", false, "explore the largest of the small worlds, too")
	linesFlag = flag.Int("sim.lines", 80, "how many events to print before a failure")
)

// Share returns how many of n equal cases a test runs: -sim.share of them, or else n with -sim.all
// and a tenth without, and at least one.
func Share(n int) int {
	switch {
	case *shareFlag > 0:
		return max(1, int(*shareFlag*float64(n)))
	case *allFlag:
		return n
	}
	return max(1, n/10)
}

// Seeds returns how many seeds a simulation of n runs: -sim.seeds, or else its share.
func Seeds(n int) int {
	if *seedsFlag > 0 {
		return *seedsFlag
	}
	return Share(n)
}

// Base returns the first seed of a simulation.
func Base() uint64 { return *baseFlag }

// Lines returns how many events the report of a failure shows.
func Lines() int { return *linesFlag }

// Slow skips the test unless -sim.all is set. It is for searches that take many seconds; make race
// and make unit run them.
func Slow(t *testing.T) {
	t.Helper()
	if !*allFlag {
		t.Skip("a slow search: runs with -sim.all")
	}
}

// Search calls try with up to n seeds from [Base] on, on all cores, until a call returns true. It
// returns the seed of that call, or false if no call did. Each call has its own goroutine, so that
// a test that ends inside of it ends nothing else.
func Search(n int, try func(seed uint64) bool) (found uint64, ok bool) {
	var mu sync.Mutex
	next, end := Base(), Base()+uint64(n)
	draw := func() (seed uint64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		seed = next
		next++
		return seed, seed < end && !ok
	}
	one := func(seed uint64) {
		if try(seed) {
			mu.Lock()
			defer mu.Unlock()
			if !ok || seed < found {
				found, ok = seed, true
			}
		}
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, more := draw(); more; seed, more = draw() {
				var call sync.WaitGroup
				call.Go(func() { one(seed) })
				call.Wait()
			}
		})
	}
	wg.Wait()
	return found, ok
}

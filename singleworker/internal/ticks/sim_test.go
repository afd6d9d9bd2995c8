package ticks_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/race"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// aMillion is how many seeds come to a million ticks.
const aMillion = 36

var (
	seedFlag  = flag.Uint64("ticks.seed", 0, "replay one seed of the simulation, and print its last events")
	seedsFlag = flag.Int("ticks.seeds", aMillion/race.Factor, "how many seeds of the simulation to run")
	linesFlag = flag.Int("ticks.lines", 60, "how many events to print before a failure")
)

// mutant breaks a rule of the package on the way into it or out.
type mutant struct {
	view func(v *ticks.View)
	plan func(v ticks.View, p *ticks.Plan)
	job  func(j *ticks.Job) // of End
	end  func(p *ticks.Plan)
	// unjudged leaves it to the account of all ticks to notice.
	unjudged bool
}

func (m mutant) sound() bool { return m.view == nil && m.plan == nil && m.job == nil && m.end == nil }

func (m mutant) onView(v *ticks.View) {
	if m.view != nil {
		m.view(v)
	}
}

func (m mutant) onJob(j *ticks.Job) {
	if m.job != nil {
		m.job(j)
	}
}

func (m mutant) onPlan(v ticks.View, p *ticks.Plan) {
	if m.plan != nil {
		m.plan(v, p)
	}
}

func (m mutant) onEnd(p *ticks.Plan) {
	if m.end != nil {
		m.end(p)
	}
}

// replay runs a seed again and returns what failed, with the events before it.
func replay(seed uint64, m mutant) string {
	w := newWorld(seed, m)
	w.tracing = true
	w.run()
	if w.failure == "" {
		w.failure = fmt.Sprintf("nothing amiss; %d ticks, %d of them run", w.check.ticks, w.check.ran)
	}
	return fmt.Sprintf("seed %d: %s\n%+v\n%+v\n%s", seed, w.failure, w.profile, w.spec, w.lastEvents(*linesFlag))
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
				w.run()
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

// TestSimulation drives Next and End as owners do, in virtual time: schedules
// from each second to each day, with daylight saving; owners that die, stop,
// hang, lose the job and get it back, or are late; hours without any; clocks
// that jump; changes that are lost; runs that fail, are interrupted, kill their
// owner or last long; schedules and policies that are replaced, pauses, and
// requests, which may be withdrawn. It verifies that
//
//  1. Watermark only grows;
//  2. each tick of each schedule, up to Watermark, is in one final state, and
//     none is beyond it; a tick is claimed again only as the next attempt after
//     one that failed or was interrupted;
//  3. rows have the ticks that they say, and as many;
//  4. at most one run goes on;
//  5. the record and the history agree, and say who did what, when;
//  6. each plan and each result is what the policies want, tick by tick, with
//     attempts, failures and reasons as they were counted from outside;
//  7. the history says of each run what its handler saw;
//  8. it comes to rest: at once when no time passes, and when faults stop;
//  9. there is no alarm without a cause, and no time to wake in the past;
//  10. a request is not passed by for ever.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		t.Log(replay(*seedFlag, mutant{}))
		return
	}
	ticks, ran, steps := 0, 0, 0
	failed := eachSeed(*seedsFlag, mutant{}, func(w *world) {
		ticks += w.check.ticks
		ran += w.check.ran
		steps += w.steps
	})
	if failed != 0 {
		t.Fatalf("%s\nreplay with -run TestSimulation -ticks.seed=%d", replay(failed, mutant{}), failed)
	}
	if ticks < 1_000_000 && *seedsFlag >= aMillion {
		t.Errorf("only %d ticks", ticks)
	}
	t.Logf("%d seeds, %d ticks, %d of them run, %d steps", *seedsFlag, ticks, ran, steps)
}

// TestMutants shows that the checker notices when a rule is broken. A mutant
// that survives means a rule without effect, or a test without teeth.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, tt := range mutants {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const within = 200
			seed := eachSeed(within, tt.mutant, func(*world) {})
			if seed == 0 {
				t.Fatalf("not caught within %d seeds", within)
			}
			w := newWorld(seed, tt.mutant)
			w.run()
			if !strings.Contains(w.failure, tt.property) {
				t.Fatalf("seed %d: %s, want a violation of %s", seed, w.failure, tt.property)
			}
		})
	}
}

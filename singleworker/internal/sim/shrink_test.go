package sim

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/shrink"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

var (
	shrinkFlag = flag.Duration("sim.shrink", time.Minute, "how long to look for the shortest scene of the first violation; 0: not at all")
	sceneFlag  = flag.String("sim.scene", "", "run these steps of the seed alone, as a shortest scene is printed")
)

// scenario is a plan of which only some steps are carried out, each at its time since the
// beginning.
type scenario struct {
	steps []int // in order
	times []time.Duration
	until time.Duration // how long there is noise
}

// String is the text for -sim.scene: "3@1.5s,17@4s,18s".
func (s scenario) String() string {
	var b strings.Builder
	for _, n := range s.steps {
		fmt.Fprintf(&b, "%d@%v,", n, s.times[n])
	}
	return b.String() + s.until.String()
}

func parseScenario(text string) (s scenario, err error) {
	parts := strings.Split(text, ",")
	for _, part := range parts[:len(parts)-1] {
		number, at, _ := strings.Cut(part, "@")
		n, err := strconv.Atoi(number)
		if err != nil {
			return s, fmt.Errorf("step %q: %w", part, err)
		}
		when, err := time.ParseDuration(at)
		if err != nil {
			return s, fmt.Errorf("step %q: %w", part, err)
		}
		for len(s.times) <= n {
			s.times = append(s.times, when) // of those that are left out: no later
		}
		s.steps = append(s.steps, n)
	}
	s.until, err = time.ParseDuration(parts[len(parts)-1])
	return s, err
}

// apply makes a world carry out the scenario; the zero one is all of the seed.
func (s scenario) apply(w *world) {
	if len(s.times) == 0 {
		return
	}
	w.plan = plan{only: make(map[int]bool), times: s.times, until: s.until}
	for _, n := range s.steps {
		w.plan.only[n] = true
	}
}

// shrinkSteps looks for the fewest steps with which fails still returns true, while more does.
func shrinkSteps(s scenario, fails func(scenario) bool, more func() bool) scenario {
	with := func(steps []int) scenario { return scenario{steps: steps, times: s.times, until: s.until} }
	return with(shrink.Fewest(s.steps, func(steps []int) bool { return fails(with(steps)) }, more))
}

// shortest looks for the shortest scene of a violation of a seed: one of the same property, as
// often as not every run of a seed has it. It reports the scene, or "".
func (w *world) shortest(t *testing.T, create func(t *testing.T) *world) string {
	t.Helper()
	const tries = 3
	first, begun := w.found[0], time.Now()
	found := scenario{times: w.steps, until: w.noisy}
	for n := range w.steps {
		if found.steps = append(found.steps, n); w.steps[n] > first.at.Sub(w.begun) {
			break
		}
	}
	if at := first.at.Sub(w.begun) + time.Second; first.property < 5 || first.property > 7 {
		found.until = min(found.until, at)
	}
	report, runs := "", 0
	fails := func(s scenario) bool {
		for range tries {
			failed := false
			synctest.Test(t, func(t *testing.T) {
				again := create(t)
				s.apply(again)
				again.run()
				runs++
				k := slices.IndexFunc(again.found, func(v violation) bool { return v.property == first.property })
				if failed = k >= 0; failed {
					again.found = again.found[k:]
					report = again.report()
				}
			})
			if failed {
				return true
			}
		}
		return false
	}
	found = shrinkSteps(found, fails, func() bool { return time.Since(begun) < *shrinkFlag })
	if report == "" {
		return fmt.Sprintf("seed %d: the violation did not come again in %d runs\n", w.seed, runs)
	}
	return fmt.Sprintf("the shortest scene of seed %d has %d of %d steps (after %d runs): -sim.scene=%v\n%s",
		w.seed, len(found.steps), len(w.steps), runs, found, report)
}

// The scene of a violation that needs two steps is these two.
func TestShrink(t *testing.T) {
	t.Parallel()
	var all scenario
	for n := range 37 {
		all.steps, all.times = append(all.steps, n), append(all.times, time.Duration(n)*time.Second)
	}
	all.until = time.Minute
	runs := 0
	fails := func(s scenario) bool {
		runs++
		return slices.Contains(s.steps, 5) && slices.Contains(s.steps, 30)
	}
	s := shrinkSteps(all, fails, func() bool { return true })
	if got := s.String(); got != "5@5s,30@30s,1m0s" || runs > 60 {
		t.Errorf("%s after %d runs", got, runs)
	}
	parsed, err := parseScenario(s.String())
	if err != nil || parsed.String() != s.String() {
		t.Errorf("parsed: %v, %v", parsed, err)
	}
	for _, text := range []string{"", "5@5s", "x@5s,1m", "5@x,1m"} {
		if s, err := parseScenario(text); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}

// A random group whose protocol is broken has a scene with fewer steps.
func TestShortestScene(t *testing.T) {
	t.Parallel()
	simkit.Slow(t)
	create := func(t *testing.T) *world {
		t.Helper()
		w := newSmall(t, 1, func(*profile) {})
		w.breach = breaches["lease"]
		return w
	}
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = create(t)
		w.run()
	})
	report := w.shortest(t, create)
	var seed, kept, all int
	if _, err := fmt.Sscanf(report, "the shortest scene of seed %d has %d of %d steps", &seed, &kept, &all); err != nil || kept > all/2 {
		t.Errorf("%v: %s", err, report)
	}
}

package swtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/shrink"
)

// Plan describes a group for [Explore]. Jobs and Handlers are required, the zero value of every
// other field means its default.
type Plan struct {
	Jobs []singleworker.Job
	// Handlers makes the handlers of a process, with the names that the jobs use: it is called at each
	// start of an instance, and may be called concurrently. Variables that are made there are lost
	// with the process. Those from outside of it would outlive the scenario: see Outside.
	Handlers func(p Process) map[string]singleworker.Handler
	// Outside makes the fakes of the systems that the handlers use, for World.Outside, once for each
	// scenario. They call [Point] with the handler's context. Default: none.
	Outside func() any
	// Check is called when interrupted runs have been repeated, and then all processes have stopped in
	// an orderly way. It returns an error if something is not as it should be. Default: no check
	// beyond the rules of Effects.
	Check func(w *World) error

	Instances int           // Default 3.
	For       time.Duration // how long faults strike. Default 24 h.
	// SessionTimeout is as in singleworker.Config. Shorter ones take longer to compute: with three
	// instances some 3 ms each. Default For/100, at least 1 s and at most 15 min.
	SessionTimeout time.Duration
	// NextJobs are the jobs that version 2 declares. Default: Jobs.
	NextJobs []singleworker.Job
	// Configure changes the configuration of each instance. Default: as it is.
	Configure func(*singleworker.Config)

	Seeds int    // how many scenarios. Default 30.
	Seed  uint64 // the first one. Default 1.
	// Faults are the only faults, in one scenario, as the report of a failure has them. Default:
	// drawn, up to eight in each scenario. An empty list that is not nil: none.
	Faults []Fault
}

// Process is one start of an instance.
type Process struct {
	World    *World
	Instance string // such as "app-1"
	Version  int    // 1, or 2 after a deploy, which the next deploy takes back
}

func (p Plan) withDefaults() Plan {
	p.Instances = cmp.Or(p.Instances, 3)
	p.For = cmp.Or(p.For, 24*time.Hour)
	p.SessionTimeout = cmp.Or(p.SessionTimeout, min(max(p.For/100, time.Second), 15*time.Minute).Truncate(time.Second))
	p.Seeds = cmp.Or(p.Seeds, 30)
	p.Seed = cmp.Or(p.Seed, 1)
	return p
}

// Failure is a scenario that has failed, with the fewest faults that suffice.
type Failure struct { //nolint:errname // a report, which is an error, too
	Text   string  // the rule that was violated, and by whom
	Seed   uint64  // of the scenario
	Faults []Fault // to which it was shrunk
	Story  []string
	Runs   []Run  // the last of them
	Test   string // a Go test that fails in the same way

	rule  string
	notes []string
}

// Error is the report.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "swtest: seed %d: %s\n", f.Seed, f.Text)
	for _, line := range slices.Concat(f.notes, f.Story) {
		fmt.Fprintf(&b, "\t%s\n", line)
	}
	fmt.Fprintf(&b, "the last runs:%s\nThe same again:\n\n%s", listed(f.Runs), f.Test)
	return b.String()
}

// Explore runs a group with the application's handlers in virtual time: first without faults, and
// then under faults that are drawn from seeds: processes are killed, stopped, cut off, slow, have
// wrong clocks and are deployed again, ZooKeeper goes and comes back, outside systems refuse. More
// than half of the faults strike exactly at a [Point] of a handler. The first scenario that fails
// is run again with fewer faults, as long as it fails by the same rule. Its report, with which t
// fails, ends with a Go test.
//
// Handlers must not do real I/O, for which time would stand still: Explore says which call, and
// ends. Goroutines that they start must end when the handler's context does. Call it outside of a
// bubble.
func Explore(t *testing.T, plan Plan) {
	t.Helper()
	if f := find(t, plan); f != nil {
		t.Fatal(f)
	}
}

// Find is Explore for a test that expects a failure: it returns it, or nil if there is none.
func Find(t *testing.T, plan Plan) *Failure {
	t.Helper()
	return find(t, plan)
}

func find(t *testing.T, plan Plan) *Failure {
	t.Helper()
	if plan.Handlers == nil || len(plan.Jobs) == 0 {
		t.Fatal("swtest: a Plan needs Jobs and Handlers")
	}
	x := explorer{t: t, plan: plan.withDefaults(), patience: patience, fail: func(err error) { t.Fatal(err) }}
	first := x.play(x.plan.Seed, x.plan.Faults)
	if first.failure != nil || plan.Faults != nil {
		return x.told(first.failure)
	}
	for seed := x.plan.Seed; seed < x.plan.Seed+uint64(x.plan.Seeds); seed++ {
		faults := draw(seed, x.plan, first.hits)
		if found := x.play(seed, faults); found.failure != nil {
			return x.told(x.shorter(found.failure))
		}
	}
	return nil
}

type explorer struct {
	t        *testing.T
	plan     Plan
	patience time.Duration
	fail     func(error) // when a scenario cannot end
	plays    int
}

// played is the outcome of a scenario.
type played struct {
	failure *Failure // or nil
	hits    map[place][]time.Duration
}

// shorter looks for the fewest faults with which a scenario fails by the same rule: if it can be,
// in each of three plays.
func (x *explorer) shorter(f *Failure) *Failure {
	const most = 100 // plays
	drawn, plays := len(f.Faults), x.plays
	best, surely := f, false
	for times := 1; times <= 3 && !surely; times += 2 {
		best = f
		fails := func(faults []Fault) bool {
			again, ok := x.again(f, faults, times)
			if ok {
				best = again
			}
			return ok
		}
		shrink.Fewest(f.Faults, fails, func() bool { return x.plays-plays < most*times })
		_, surely = x.again(f, best.Faults, 2)
	}
	if !surely {
		best.notes = append(best.notes, "the failure does not come again each time")
	}
	best.notes = append(best.notes, fmt.Sprintf("%d of the seed's %d faults suffice, as %d scenarios show", len(best.Faults), drawn, x.plays-plays))
	return best
}

// again plays a scenario so many times, unless one of them does not fail as f did.
func (x *explorer) again(f *Failure, faults []Fault, times int) (again *Failure, ok bool) {
	for range times {
		if again = x.play(f.Seed, faults).failure; again == nil || again.rule != f.rule {
			return nil, false
		}
	}
	return again, true
}

// told adds a Go test to a failure.
func (x *explorer) told(f *Failure) *Failure {
	if f != nil {
		f.Test = f.test(x.t.Name())
	}
	return f
}

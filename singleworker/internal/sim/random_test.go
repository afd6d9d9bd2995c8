package sim

import (
	"cmp"
	"flag"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// inRandomSeeds says in how many seeds, by property, a breach comes to light.
var inRandomSeeds = map[string]struct {
	want   []int // one of these properties
	within int   // seeds
}{
	"takeover": {[]int{1}, 400}, "adoption": {[]int{1}, 100}, "lease": {[]int{1}, 50},
	"claims": {[]int{2, 3, 8}, 100}, "alarm": {[]int{10}, 20}, "leader": {[]int{11}, 20}, "layout": {[]int{9}, 20}, "spec": {[]int{9}, 100},
	"running": {[]int{13}, 20}, "clock": {[]int{14}, 20}, "restart": {[]int{15}, 20}, "dormant": {[]int{15}, 20},
	"kept after a reset": {[]int{12}, 100}, "kept in an empty tree": {[]int{12}, 20},
	"part": {[]int{8}, 60}, "absent": {[]int{8}, 60}, "lost part": {[]int{8}, 40}, "labels": {[]int{16}, 20}, "deaf": {[]int{16}, 60},
	"one more": {[]int{2, 8}, 20}, "forgotten runs": {[]int{2, 8}, 20}, "jitter": {[]int{2}, 20}, "calendar": {[]int{2, 8}, 60},
	"short": {[]int{17}, 20}, "unpublished": {[]int{10}, 40}, "child per parent": {[]int{2, 19}, 40},
	"one place more": {[]int{20}, 20}, "lost release": {[]int{20}, 20}, "stolen place": {[]int{20}, 20}, "freed twice": {[]int{20}, 20},
	"asked twice": {[]int{2}, 20}, "freeze": {[]int{2}, 150},
}

// TestBreachesUnderRandomSeeds breaks the protocol in every instance of a random group, small and
// with many faults, and shows that the faults that seeds draw suffice to bring it to light: within
// a bounded number of seeds, a few times the mean. (About 105 seeds for the takeover, 30 for the
// freeze, 3 or fewer for most others.) A claim without a check of the owner alone is not among
// them: the tick record's version guards it, too, so that it takes the scene of TestBreaches. Nor
// is one without a check of the parents' specs, or that the parents are the same jobs, which 120
// seeds do not find.
func TestBreachesUnderRandomSeeds(t *testing.T) {
	t.Parallel()
	simkit.Slow(t)
	for name, tt := range inRandomSeeds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first atomic.Pointer[violation]
			seed, caught := simkit.Search(tt.within, func(seed uint64) bool {
				v, found := breached(t, seed, breaches[name], tt.want)
				if found {
					first.Store(&v)
				}
				return found
			})
			if !caught {
				t.Fatalf("not found within %d seeds", tt.within)
			}
			t.Logf("seed %d: %v", seed, first.Load())
		})
	}
}

// breached runs a seed with a breach, and returns the first violation of one of the properties.
func breached(t *testing.T, seed uint64, b *breach, want []int) (first violation, found bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSmall(t, seed, cmp.Or(b, &breach{}).world())
		w.breach = b
		w.run()
		k := slices.IndexFunc(w.found, func(v violation) bool { return slices.Contains(want, v.property) })
		if found = k >= 0; found {
			first = w.found[k]
		}
	})
	return first, found
}

// world is that in which the breach can be found.
func (b *breach) world() func(*profile) {
	if b.in == nil {
		return func(*profile) {}
	}
	return b.in
}

// lagging has instances read from servers that are behind.
func lagging(p *profile) { p.Lagging = true }

// forgetful has the servers lose transactions.
func forgetful(p *profile) { p.Forgets = true }

// resets has them come back as if these had never been.
func resets(p *profile) { p.Forgets, p.Resets, p.Empties = true, true, false }

// empties has them lose all.
func empties(p *profile) { p.Forgets, p.Resets, p.Empties = false, true, true }

// latchMode has one instance lead, and own everything.
func latchMode(p *profile) {
	p.Latch, p.Alike, p.Weighted, p.Limited = true, true, false, false
}

// newSmall is a world with few instances and slots, and many faults.
func newSmall(t *testing.T, seed uint64, in func(*profile)) *world {
	t.Helper()
	return newWorldLike(t, seed, time.Minute, func(p *profile) {
		p.Instances, p.Slots = 2+p.Instances%3, 5+p.Slots%11
		p.Session, p.Sync, p.FaultEvery = 4*time.Second, 2*time.Second, time.Second
		p.Forced = true
		in(p)
	})
}

// heartbeats has an operation on the heartbeats of any job check no version.
func heartbeats(op zkdev.Op) func(zkdev.Op, string, int32) (string, int32) {
	return func(o zkdev.Op, path string, version int32) (string, int32) {
		if o == op && strings.Contains(path, "/alive/") {
			return path, -1
		}
		return path, version
	}
}

// node makes instances change their node, or another node at its path, without a version, and
// without a check of who has joined.
func node(op zkdev.Op, path string, version int32) (string, int32) {
	switch {
	case op == zkdev.OpCheck && strings.HasSuffix(path, "/_instances"):
		return "/", -1
	case op != zkdev.OpCheck && strings.Contains(path, "/_instances/"):
		return path, -1
	}
	return path, version
}

// alarms makes instances write them elsewhere.
func alarms(_ zkdev.Op, path string, version int32) (string, int32) {
	if strings.HasSuffix(path, "/"+nodeAlarm) {
		return "/" + strings.ReplaceAll(path, "/", "_"), -1
	}
	return path, version
}

// leader makes claims check no leader.
func leader(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck && strings.Contains(path, "/_leader/") {
		return "/", -1
	}
	return path, version
}

// TestBreachRates counts how many of the seeds find each breach, or -sim.breach alone: -sim.rates.
func TestBreachRates(t *testing.T) {
	if !*ratesFlag {
		t.Skip("a count, for the page: runs with -sim.rates")
	}
	for _, name := range slices.Sorted(mapKeys(breaches)) {
		if *breachFlag != "" && name != *breachFlag {
			continue
		}
		var found, seeds atomic.Int64
		simkit.Search(simkit.Seeds(1000), func(seed uint64) bool {
			seeds.Add(1)
			if v, is := breached(t, seed, breaches[name], everyProperty); is {
				t.Logf("breach %s: seed %d: %v", name, seed, v)
				found.Add(1)
			}
			return false
		})
		t.Logf("breach %s: found by %d of %d seeds", name, found.Load(), seeds.Load())
	}
}

var ratesFlag = flag.Bool("sim.rates", false, "count how many seeds find each breach")

// breaches are the rules that can be broken in every instance of a group, by name.
var breaches = map[string]*breach{
	"takeover":              {check: heartbeats(zkdev.OpDelete)},                                    // without the heartbeat's version
	"adoption":              {check: blind(zkdev.OpSetData, "/alive")},                              // without the owner record's version
	"lease":                 {granted: 40 * time.Second},                                            // that outlives the session
	"kept after a reset":    {granted: 40 * time.Second, in: resets},                                // leases from servers that have forgotten them
	"kept in an empty tree": {granted: 40 * time.Second, in: empties},                               // likewise
	"claim":                 {check: claim},                                                         // without a check of the owner
	"spec":                  {check: unspecified},                                                   // a claim without the spec's version
	"layout":                {hasty: true},                                                          // that does not wait for runs to end
	"alarm":                 {check: alarms},                                                        // that is not raised
	"leader":                {check: leader, in: latchMode},                                         // without a check of the leader's node
	"tick":                  {check: blind(zkdev.OpSetData, "/tick"), in: forgetful},                // without the tick record's version
	"node":                  {check: node, in: lagging},                                             // changes of instances' nodes without a version
	"running":               {unlimited: true, in: func(p *profile) { p.Running = 2 }},              // more runs than MaxRunning
	"clock":                 {anyClock: true, in: wrongClocks},                                      // ticks far ahead of the server's time
	"restart":               {data: restarts(-time.Hour), in: func(p *profile) { p.Always = true }}, // of a job that always runs, without a pause
	"dormant":               {data: restarts(time.Hour), in: func(p *profile) { p.Always = true }},  // which is not restarted
	"part":                  {check: refusedParts, in: everywhere},                                  // of a job on every instance: it is not run
	"absent":                {data: absent, in: everywhere},                                         // what was not run there came during an absence
	"lost part":             {last: loseParts, in: everywhere},                                      // what is on record of it is deleted
	"labels":                {falseLabels: true, in: placed},                                        // others than the instance has
	"deaf":                  {first: hideOrders, in: placed},                                        // orders for jobs are not known
	"late":                  {late: asksFor + 50*time.Millisecond, in: anyClocks},                   // the answer whether leases hold when a clock has leapt
	"short":                 {granted: time.Second},                                                 // leases end long before the session may
	"untold":                {check: unsignaled, in: declared},                                      // changes of jobs that nobody hears of
	"unpublished":           {data: unpublished, in: serverClock},                                   // how far instances' clocks are off
	"one more":              {data: runs(func(n int) int { return max(0, n-1) }), in: windows},      // than MaxRuns
	"forgotten runs":        {data: runs(func(int) int { return 1 }), in: windows},                  // each claim begins to count
	"jitter":                {hurried: true, in: windows},                                           // claims before ticks are due
	"calendar":              {check: uncalendared, in: calendars},                                   // a claim without the versions of calendars
	"child per parent":      {oneParent: true, in: families},                                        // which does not look at the others
	"one place more":        {onePlaceMore: true, in: shared},                                       // than a limit has
	"lost release":          {keeps: "/held/", in: shared},                                          // a run ends and keeps its places
	"stolen place":          {check: stolen, in: shared},                                            // a claim does not take the place that it names
	"freed twice":           {check: freedElsewhere, in: shared},                                    // a run gives back another one's place
	"asked twice":           {keeps: "/requests/"},                                                  // a past tick leaves its request
	"freeze":                {check: unfrozen},                                                      // a claim without the version of the freeze
	"claims": {check: func(op zkdev.Op, path string, version int32) (string, int32) { // without any check
		path, version = claim(op, path, version)
		return blind(zkdev.OpSetData, "/tick")(op, path, version)
	}},
}

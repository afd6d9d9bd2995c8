package sim

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// heartbeats has an operation on the heartbeats of any job check no version.
func heartbeats(op zkdev.Op) func(zkdev.Op, string, int32) (string, int32) {
	return func(o zkdev.Op, path string, version int32) (string, int32) {
		if o == op && strings.Contains(path, "/alive/") {
			return path, -1
		}
		return path, version
	}
}

// breaches are the rules that can be broken in every instance of a group, by name.
var breaches = map[string]*breach{
	"takeover": {check: heartbeats(zkdev.OpDelete)},       // without the heartbeat's version
	"adoption": {check: blind(zkdev.OpSetData, "/alive")}, // without the owner record's version
	"lease":    {granted: 40 * time.Second},               // that outlives the session
	"claim":    {check: claim},                            // without a check of the owner
	"claims": {check: func(op zkdev.Op, path string, version int32) (string, int32) { // without any check
		path, version = claim(op, path, version)
		return blind(zkdev.OpSetData, "/tick")(op, path, version)
	}},
}

// TestBreachesUnderRandomSeeds breaks the protocol in every instance of a random group, and shows
// that the faults that seeds draw suffice to bring it to light: within a bounded number of seeds,
// about ten times of what it takes. A claim without a check of the owner alone is not among them: the
// tick record's version guards it, too, so that it takes the scene of TestBreaches. The order of events within an instant is not the seed's.
func TestBreachesUnderRandomSeeds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want   []int // one of these properties
		within int   // seeds
	}{
		"takeover": {[]int{1}, 150}, "adoption": {[]int{1}, 20}, "lease": {[]int{1}, 20},
		"claims": {[]int{2, 3, 8}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= uint64(tt.within); seed++ {
				if v, found := breached(t, seed, breaches[name], tt.want); found {
					t.Logf("seed %d: %v", seed, v)
					return
				}
			}
			t.Errorf("not found within %d seeds", tt.within)
		})
	}
}

// TestMakeSimFails runs make sim, with this test binary in place of go test: the recipe exits with 1, and so
// make with an error, if there are violations, and says last how many.
func TestMakeSimFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	sim := func(breach string) (lastLine string, err error) {
		command := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../..", "sim", "SIM="+os.Args[0],
			"SEEDS=1", "SEED_BASE=1", "MINUTES=0.5", "BREACH="+breach)
		command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := command.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[len(lines)-1], err
	}
	if last, err := sim(""); err != nil || last != "violations: 0" {
		t.Errorf("the protocol as it is: %v, last line %q", err, last)
	}
	last, err := sim("lease")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.HasPrefix(last, "violations: ") || last == "violations: 0" {
		t.Errorf("the protocol broken: %v, last line %q", err, last)
	}
}

// breached runs a seed with a breach, and returns the first violation of one of the properties.
func breached(t *testing.T, seed uint64, b *breach, want []int) (first violation, found bool) {
	t.Helper()
	var one sync.WaitGroup
	one.Go(func() {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, time.Minute)
			w.breach = b
			w.run()
			k := slices.IndexFunc(w.found, func(v violation) bool { return slices.Contains(want, v.property) })
			if found = k >= 0; found {
				first = w.found[k]
			}
		})
	})
	one.Wait()
	return first, found
}

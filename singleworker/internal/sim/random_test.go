package sim

import (
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

// TestBreachesUnderRandomSeeds breaks the protocol in every instance of a random group, and shows
// that the faults that seeds draw suffice to bring it to light: within a bounded number of seeds.
func TestBreachesUnderRandomSeeds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		breach breach
		want   []int // one of these properties
		within int   // seeds
	}{
		{"takeover without the heartbeat's version", breach{check: heartbeats(zkdev.OpDelete)}, []int{1}, 100},
		{"adoption without the owner record's version", breach{check: blind(zkdev.OpSetData, "/alive")}, []int{1}, 100},
		{"a lease that outlives the session", breach{granted: 40 * time.Second}, []int{1}, 100},
		{"claim without a check of the owner", breach{check: claim}, []int{2, 3}, 100},
		{"claim without any check", breach{
			check: func(op zkdev.Op, path string, version int32) (string, int32) {
				path, version = claim(op, path, version)
				return blind(zkdev.OpSetData, "/tick")(op, path, version)
			},
		}, []int{2, 3}, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(tt.within) {
				if v, found := breached(t, seed+1, &tt.breach, tt.want); found {
					t.Logf("seed %d: %v", seed+1, v)
					return
				}
			}
			t.Errorf("not found within %d seeds", tt.within)
		})
	}
}

// breached runs a seed with a breach, and returns the first violation of one of the properties.
func breached(t *testing.T, seed uint64, b *breach, want []int) (first violation, found bool) {
	t.Helper()
	var one sync.WaitGroup
	one.Go(func() {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, 2*time.Minute)
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

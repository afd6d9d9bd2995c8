package ticks_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// TestExplore runs Next, End and Settled through every interleaving of two owners, an operator who
// changes a job from one shard to two, and the keeper's steps to the new layout, with requests
// under way and a clock that is wrong. It checks, at each change, that
//
//  1. Watermark only grows;
//  2. each tick that it passes is in exactly one entry or claimed, and none is claimed twice;
//  9. a tick has one number of shards, and the new layout begins where the old one ends;
//
// and that on every way on the new layout comes and every tick is accounted for.
func TestExplore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults tinyFaults
		tier   simkit.Tier
	}{
		{"a shard change", tinyFaults{edits: 1}, simkit.Small},
		{"a shard change, a wrong clock", tinyFaults{edits: 1, leaps: 1}, simkit.Huge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.tier.Check(t)
			found := simkit.Explore(newTiny(tt.faults, tinySound), simkit.NoLimit)
			if found.Failure != "" {
				t.Fatal(found.Told())
			}
			if !found.Complete || found.Unsettled > 2 {
				t.Errorf("complete: %v; the new layout takes %d s too long", found.Complete, found.Unsettled)
			}
			t.Logf("%-40s %v", tt.name, found)
		})
	}
}

// TestExploreBreaches leaves out checks of the transactions, which the exploration must notice.
func TestExploreBreaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		breach tinyBreach
	}{
		{"a claim checks no spec", tinyAnySpec},
		{"a layout does not wait for the last tick", tinyHasty},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := simkit.Explore(newTiny(tinyFaults{edits: 1}, tt.breach), simkit.NoLimit)
			if found.Failure == "" {
				t.Fatalf("not noticed: %v", found)
			}
			t.Logf("%s: %s, after %d moves", tt.name, found.Failure, len(found.Story))
		})
	}
}

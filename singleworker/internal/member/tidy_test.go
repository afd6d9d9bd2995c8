package member

import (
	"fmt"
	"maps"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// The members of a group do not all clean up at once.
func TestRanksDiffer(t *testing.T) {
	t.Parallel()
	peers := map[string]lease.Peer{"a": {}, "b": {}, "c": {}}
	ranks := make(map[int]bool)
	for id := range peers {
		c := &Cleanup{id: id, peers: peers}
		ranks[c.Rank("dead")] = true
	}
	if !ranks[0] || !ranks[1] || !ranks[2] {
		t.Errorf("ranks %v, want 0, 1 and 2", ranks)
	}
}

// Names that differ at their ends only do not fall to the same member.
func TestRanksSpread(t *testing.T) {
	t.Parallel()
	members := map[string]bool{"app-1": true, "app-2": true, "app-3": true}
	first := make(map[string]int)
	for i := range 300 {
		for id := range members {
			if rank(id, maps.Keys(members), fmt.Sprintf("job-%03d", i)) == 0 {
				first[id]++
			}
		}
	}
	for id := range members {
		if first[id] < 70 || first[id] > 130 {
			t.Errorf("%s comes first for %d of 300 jobs, want about 100", id, first[id])
		}
	}
}

package member

import (
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

package lease_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// TestClaimChecksOwnHeartbeat shows why a claim also checks that the claimant's
// heartbeat node exists. All versions restart when a job is deleted and submitted
// again: an owner that has not noticed would claim ticks of the new job, which now
// belongs to another instance.
func TestClaimChecksOwnHeartbeat(t *testing.T) {
	t.Parallel()
	a, b := lease.Member{SID: "a", Incarnation: "a1"}, lease.Member{SID: "b", Incarnation: "b1"}
	for name, tt := range map[string]struct {
		mutant mutant
		want   lease.Outcome
	}{
		"with that check":              {sound, lease.Refused},
		"with the check of alive only": {claimsWithoutBeat, lease.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(1, tt.mutant)
			w.zk = newServer(w)
			j := w.zk.add(s)
			w.zk.create(j)
			_, old := w.zk.take(a, lease.Take{Slot: s, Version: 0})
			w.zk.remove(j)
			w.zk.create(j)
			w.zk.take(b, lease.Take{Slot: s, Version: 0})
			got := w.zk.claim(claim{slot: s, member: a, token: old.Mzxid, version: old.Version, tick: 7})
			if got != tt.want {
				t.Errorf("the old owner's claim: %v, want %v", got, tt.want)
			}
			if noticed := w.Failure() != ""; noticed != (got == lease.Done) {
				t.Errorf("the checker says %q", w.Failure())
			}
		})
	}
}

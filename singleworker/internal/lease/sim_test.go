package lease_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// TestSimulation runs groups of 2 to 6 instances, each a real Machine with separate
// clocks, against a model of ZooKeeper. Requests are lost, applied with the reply
// lost, or applied late; connections break; sessions expire; machines hang, sleep
// and crash; reads lag; watches are missed; jobs are created and deleted; nodes are
// edited manually. It checks that
//
//  1. two instances never have a valid lease on one slot, except in the cases
//     excluded by the package comment, and except that an owner without a run was
//     relieved, rule (c), since its lease was last renewed;
//  2. no tick is claimed twice, and none by another than the recorded owner,
//     even if sessions are closed manually;
//  3. the token of a new owner is larger than the tokens of all owners before, unless it
//     was relieved before it knew that it was the owner;
//  4. a slot has at most one request and one heartbeat in flight;
//  9. two instances never have a run of one slot;
//  10. nobody offers slots to an instance of which it has read in a record that it was relieved, for
//     eight sync periods, unless it has taken a slot since;
//  11. nobody takes a slot for lost while the record names it and its heartbeat is there, unless
//     one of its heartbeats had no answer in that session;
//
// and that after the noise, within ownedWithin and evenWithin,
//
//  5. every job has exactly one owner, which is alive and has the handler and a
//     valid lease, if there is such an instance;
//  6. instances with the same handlers and weights own the same number of slots, in all and of each
//     group, plus or minus one; with different weights, the numbers are even by weight; and from then
//     on nothing moves (except that a hung instance is occasionally offered slots);
//  7. only owners have heartbeat nodes;
//  8. an instance that drains owns nothing.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var steps, runs, reliefs, idle, kept int
	seeds := simkit.Test(t, 150, worlds(sound), func(w *world) {
		steps += w.steps
		runs += w.runs
		reliefs += w.reliefs
		idle += w.idle
		kept += w.kept
	})
	t.Logf("%d seeds, %d steps, %d runs, %d owners relieved, %d of them with a valid lease, %d runs kept after a sleep", seeds, steps, runs, reliefs, idle, kept)
	if seeds >= 6 && (runs == 0 || idle == 0 || idle == reliefs) {
		t.Error("not all cases occurred")
	}
}

// worlds are the simulations of a mutant.
func worlds(m mutant) func(seed uint64) *world {
	return func(seed uint64) *world { return newWorld(seed, m) }
}

// TestMutants shows that the checker notices when a rule of the protocol is left
// out. If a mutant survives, the rule has no effect or the test is too weak.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutant mutant
		breaks []string // properties, any of which may fail first
		within int      // seeds
	}{
		{"takeover without the check of H", takesWithoutH, []string{"(1)"}, 3000},
		{"group read before the slots", staleGroup, []string{"(1)", "(3)"}, 3000},
		{"leases of 1.5 sessions", longLeases, []string{"(1)"}, 300},
		{"lease counted from the reply", countsFromReply, []string{"(1)", "(3)"}, 3000},
		{"session timeouts of others not known", knowsNoSessions, []string{"(1)"}, 3000},
		{"heartbeats read as old", readsBeatsAsOld, []string{"(1)"}, 300},
		{"relieved with an open run", relievesOpenRuns, []string{"(1)", "(9)"}, 300},
		{"relieved under any tick record and heartbeat", relievesAnyTick, []string{"(1)", "(9)"}, 3000},
		{"relieved beside the heartbeat", relievesBesideBeat, []string{"(1)"}, 300},
		{"claim without a heartbeat", claimsBesideBeat, []string{"(1)"}, 3000},
		{"claim without the check of alive", claimsWithoutAlive, []string{"(2)"}, 3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.within > 1000 {
				simkit.Slow(t)
			}
			simkit.Caught(t, tt.within, worlds(tt.mutant), tt.breaks...)
		})
	}
}

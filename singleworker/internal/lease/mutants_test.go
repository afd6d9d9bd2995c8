//go:build !race

// The race detector would find nothing here, and some of the mutants take thousands of seeds: make race runs
// this file without.

package lease_test

import (
	"slices"
	"strings"
	"testing"
)

// TestMutants shows that the checker notices when a rule of the protocol is
// left out. A mutant that survives means a rule without effect, or a test
// without teeth.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutant mutant
		breaks string // properties, either of which may show it first
		within int    // seeds
	}{
		{"takeover without the check of H", takesWithoutH, "(1)", 3000},
		{"group read before the slots", staleGroup, "(1)", 3000},
		{"leases of 1.5 sessions", longLeases, "(1)", 300},
		{"lease counted from the reply", countsFromReply, "(1) (3)", 3000},
		{"session timeouts of others not known", knowsNoSessions, "(1)", 3000},
		{"heartbeats read as old", readsBeatsAsOld, "(1)", 300},
		{"claim without the check of alive", claimsWithoutAlive, "(2)", 3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seed := eachSeed(tt.within, tt.mutant, func(*world) {})
			if seed == 0 {
				t.Fatalf("not caught within %d seeds", tt.within)
			}
			w := newWorld(seed, tt.mutant)
			w.runAll()
			broken := func(property string) bool { return strings.Contains(w.failure, property) }
			if !slices.ContainsFunc(strings.Fields(tt.breaks), broken) {
				t.Fatalf("seed %d: %s, want a violation of %s", seed, w.failure, tt.breaks)
			}
		})
	}
}

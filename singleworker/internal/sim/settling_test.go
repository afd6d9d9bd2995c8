package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TestSettlingIsChecked: an instance that cannot own anything, because the server refuses
// it, is one whose share is not even; and a registration that cannot be removed is left.
func TestSettlingIsChecked(t *testing.T) {
	t.Parallel()
	simkit.Slow(t)
	for _, tt := range []struct {
		name   string
		refuse func(r *zkdev.Request) bool
		want   int
	}{
		{"no instance can own", func(r *zkdev.Request) bool { return has(r, zkdev.OpSetData, "/alive") }, 5},
		{"one cannot own", func(r *zkdev.Request) bool {
			return has(r, zkdev.OpSetData, "/alive") && strings.HasPrefix(r.Client, "i1")
		}, 6},
		{"registrations stay", func(r *zkdev.Request) bool { return has(r, zkdev.OpDelete, "/register/i1") }, 7},
		{"no instance can claim", func(r *zkdev.Request) bool { return has(r, zkdev.OpSetData, "/tick") }, 8},
		{"complete ticks cannot be recorded", func(r *zkdev.Request) bool { return has(r, zkdev.OpSetData, "/shards") }, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0)
				w.Alike, w.Instances = true, 2
				w.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if tt.refuse(r) {
						return zkdev.Refuse(zkdev.BadVersion)
					}
					return zkdev.Pass()
				})
				w.run()
				if !slices.ContainsFunc(w.found, func(v violation) bool { return v.property == tt.want }) {
					t.Errorf("found %v, want (%d)", fmt.Sprint(w.found), tt.want)
				}
			})
		})
	}
}

package coord

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A change of a job, such as a pause, is followed when it is made: by its owner, and by the
// others, who may own it next.
func TestChangeOfAJobIsFollowedAtOnce(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a", nil)
		a.ownership()
		var watched zkrec.Spec
		g.join("b", func(spec zkrec.Spec, _ zkrec.Tick, _ bool) (tick, lookAgain time.Time) {
			watched = spec
			return time.Time{}, time.Now() // look at each sync
		})
		pass(syncPeriod)
		for _, schedule := range []string{"1 * * * * ?", "2 * * * * ?"} {
			g.set(g.tree.Job("job"), zkrec.Spec{Schedule: schedule}.Encode())
			pass(time.Millisecond)
			if o := a.ownership(); o.Spec.Schedule != schedule {
				g.t.Errorf("the owner goes by %q, want %q", o.Spec.Schedule, schedule)
			}
			pass(syncPeriod)
			if watched.Schedule != schedule {
				g.t.Errorf("the other goes by %q, want %q", watched.Schedule, schedule)
			}
		}
	})
}

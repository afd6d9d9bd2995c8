package coord

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// A change of a job, such as a pause, is followed at once by its owner and by the other
// instances, which may own it next.
func TestChangeOfAJobIsFollowedAtOnce(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		a.ownership()
		b := g.join("b")
		pass(syncPeriod)
		for _, schedule := range []string{"1 * * * * ?", "2 * * * * ?"} {
			g.set(g.tree.Job("job"), zkrec.Spec{Job: jobs.Job{Schedule: schedule}}.Encode())
			pass(time.Millisecond)
			if o := a.ownership(); o.Spec.Job.Schedule != schedule {
				g.t.Errorf("the owner uses %q, want %q", o.Spec.Job.Schedule, schedule)
			}
			if known := b.catalog.JobOf("job").Spec.Job.Schedule; known != schedule {
				g.t.Errorf("the other uses %q, want %q", known, schedule)
			}
		}
	})
}

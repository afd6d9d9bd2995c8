package coord

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// A change of a job, such as a pause, is followed at once by its owner and by the other
// instances, which may own it next.
func TestChangeOfAJobIsFollowedAtOnce(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		b := g.join("b")
		roomtest.Pass(roomtest.SyncPeriod)
		for _, schedule := range []string{"1 * * * * ?", "2 * * * * ?"} {
			g.Set(g.Tree.Job("job"), zkrec.Spec{Job: jobs.Job{Schedule: schedule}}.Encode())
			roomtest.Pass(time.Millisecond)
			if o := a.Ownership(); o.Spec.Job.Schedule != schedule {
				g.T.Errorf("the owner uses %q, want %q", o.Spec.Job.Schedule, schedule)
			}
			if known := b.catalog.JobOf("job").Spec.Job.Schedule; known != schedule {
				g.T.Errorf("the other uses %q, want %q", known, schedule)
			}
		}
	})
}

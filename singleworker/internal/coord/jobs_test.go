package coord

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
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

// A job that somebody deletes and makes again at once, and tells nobody, is another one to all that
// watch its owner record.
func TestJobThatIsReplacedByHand(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		b := g.join("b")
		roomtest.Pass(roomtest.SyncPeriod)
		ops := g.Cancel()
		ops = ops[:len(ops)-1] // which tells of it
		g.Multi(append(ops, session.CreateOps(g.Tree.NewJob("job", zkrec.Spec{Job: jobs.Job{Schedule: "@daily"}, Since: 1}))...)...)
		roomtest.Pass(time.Second)
		for _, m := range []*instance{a, b} {
			if known := m.catalog.JobOf("job"); known == nil || known.Spec.Job.Schedule != "@daily" {
				g.T.Errorf("%s knows %+v, want the job that is there", m.member.ID(), known)
			}
		}
	})
}

// Requests of operators while the session of the owner is over are known when it has joined again:
// no watch tells.
func TestRequestDuringAnOutageIsFound(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		a.client.Partition()
		roomtest.Pass(2 * roomtest.SessionTimeout)
		g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a.client.Heal()
		roomtest.Pass(3 * roomtest.SessionTimeout)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q1"}) {
			g.T.Errorf("requests %q, want q1", ids)
		}
	})
}

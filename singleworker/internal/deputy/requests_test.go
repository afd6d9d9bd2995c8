package deputy_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// An owner that claims nothing is relieved of a job that is due at noon when somebody asks for a run, whatever has happened to its deputy,
// or to the job.
func TestRequestsForALazyOwnerAreSeen(t *testing.T) {
	t.Parallel()
	ask := func(g *roomtest.Group) { g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun}) }
	for what, happens := range map[string]func(g *roomtest.Group, b *instance){
		"nothing": func(g *roomtest.Group, _ *instance) { ask(g) },
		"the deputy is in another connection": func(g *roomtest.Group, b *instance) {
			b.Client.Disconnect()
			roomtest.Pass(2 * roomtest.SyncPeriod)
			ask(g)
		},
		"the deputy could not run the job when somebody asked": func(g *roomtest.Group, _ *instance) {
			everywhere := g.Spec()
			here := everywhere
			here.Job.Instances = []string{"a"}
			g.Set(g.Tree.Job("job"), here.Encode())
			ask(g)
			roomtest.Pass(100 * time.Millisecond)
			g.Set(g.Tree.Job("job"), everywhere.Encode())
		},
		"the job was submitted again": func(g *roomtest.Group, _ *instance) {
			spec := g.Spec()
			g.Multi(g.Cancel()...)
			roomtest.Pass(100 * time.Millisecond)
			g.SubmitSpec("job", spec)
			roomtest.Pass(2 * roomtest.SyncPeriod)
			ask(g)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Grace = grace
				g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 0 12 * * ?"}, Since: roomtest.Midnight.UnixMilli()})
				start(g, "a", func(string) time.Duration { return never })
				roomtest.Pass(2 * roomtest.SyncPeriod)
				b := start(g, "b", nil)
				roomtest.Pass(2 * roomtest.SyncPeriod)
				happens(g, b)
				roomtest.Pass(2 * roomtest.SyncPeriod)
				if r := recordOf(g, "job"); r.Manual != "q1" || r.SID != "b" || r.TakenFrom != "a" || r.State != zkrec.RunOK {
					g.T.Errorf("the last run is %+v, want q1, by b, taken from a", r.Run)
				}
			})
		})
	}
}

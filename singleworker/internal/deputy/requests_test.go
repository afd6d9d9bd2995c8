package deputy_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// An owner that claims nothing is relieved of a job that is due at noon when somebody asks for a
// run, whatever has happened to its deputy, or to the job.
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
		"the deputy had no connection when somebody asked": func(g *roomtest.Group, b *instance) {
			b.Client.Partition()
			roomtest.Pass(time.Second)
			ask(g)
			roomtest.Pass(time.Second)
			b.Client.Heal()
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
			here := spec
			here.Job.Instances = []string{"a"} // otherwise either may own it
			g.SubmitSpec("job", here)
			roomtest.Pass(2 * roomtest.SyncPeriod)
			g.Set(g.Tree.Job("job"), spec.Encode())
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
				if r := recordOf(g, "job"); r.Manual != "q1" || r.SID != "b" || r.TakenFrom != "a" || r.State != history.StateOK {
					g.T.Errorf("the last run is %+v, want q1, by b, taken from a", r.Run)
				}
			})
		})
	}
}

// A request that is done is of no concern any more, although nobody tells the deputy.
func TestDeputyForgetsWhatIsDone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		g.Submit("job")
		start(g, "a", nil)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		start(g, "b", nil)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		data, _, _ := g.Get(g.Tree.Alive("job"))
		holder, err := zkrec.ParseOwner(data)
		if err != nil {
			g.T.Fatal(err)
		}
		var read atomic.Int32
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client != holder.SID && r.Path == g.Tree.Request("job", "q1") {
				read.Add(1)
			}
			return zkdev.Pass()
		})
		g.OnMulti(g.Tree.Tick("job"), zkdev.Delay(grace/2))
		g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		roomtest.Pass(2 * time.Minute)
		if r := recordOf(g, "job"); r.SID != holder.SID || read.Load() == 0 || read.Load() > 4 {
			g.T.Errorf("the last run is %+v, and the deputy of %s has read the request %d times", r.Run, holder.SID, read.Load())
		}
		was := read.Load()
		roomtest.Pass(10 * time.Minute)
		if now := read.Load(); now != was {
			g.T.Errorf("the deputy has read a request that is done %d times more", now-was)
		}
	})
}

// The first deputy looks for requests of which nobody tells, too, within 60 sync periods.
func TestRequestForALazyOwnerOfWhichNobodyTells(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 0 12 * * ?"}, Since: roomtest.Midnight.UnixMilli()})
		start(g, "a", func(string) time.Duration { return never })
		roomtest.Pass(2 * roomtest.SyncPeriod)
		start(g, "b", nil)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.Multi(zkconn.CreateOp(g.Tree.Request("job", "q1"), zkrec.Request{Kind: zkrec.RequestRun, At: time.Now()}.Encode()))
		roomtest.Pass(62 * roomtest.SyncPeriod)
		if r := recordOf(g, "job"); r.Manual != "q1" || r.SID != "b" {
			g.T.Errorf("the last run is %+v, want q1, by b", r.Run)
		}
	})
}

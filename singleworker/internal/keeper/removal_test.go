package keeper_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/keeper"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// startRemover starts an instance that owns nothing, and removes done jobs, and records that others
// have left.
func startRemover(g *roomtest.Group) {
	g.T.Helper()
	r := g.NewCatalog(member.Config{ID: "a"})
	removal, parts := keeper.NewRemoval(r.Loop.Loop, r.Member, r.Catalog), keeper.NewParts(r.Loop.Loop, r.Member, r.Catalog)
	r.Add(roomtest.Room{
		Sync: func() {
			if r.Joined() {
				removal.Sync()
				parts.Sync()
			}
		},
		Handle: func(n session.Notice) {
			if changed, is := n.(catalog.Changed); is {
				removal.Changed(changed.Job)
				parts.Changed(changed.Job)
			}
		},
	})
	r.Start()
}

// A job that is done is kept for as long as ZooKeeper's clock says, whatever an instance believes.
func TestDoneJobIsKeptByZooKeepersClock(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		spec := once()
		spec.Done = &zkrec.Done{Since: spec.Since}
		g.SubmitSpec("job", spec)
		startRemover(g)
		roomtest.Pass(time.Minute)
		const behind = 30 * time.Minute
		g.Server.SetClock(-behind)
		until(time.Hour + behind - time.Minute)
		g.WantNodes(true, g.Tree.Job("job"))
		until(time.Hour + behind + time.Minute)
		g.WantNodes(false, g.Tree.Job("job"))
	})
}

// A job that is opened for a run is not removed, also if that is asked when its removal is under
// way.
func TestDoneJobOfWhichARunIsAskedFor(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		spec := once()
		spec.Done = &zkrec.Done{Since: spec.Since}
		g.SubmitSpec("job", spec)
		removing := make(chan struct{})
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpDelete && op.Path == g.Tree.Job("job") }) {
				close(removing)
				return zkdev.Delay(2 * time.Second)
			}
			return zkdev.Pass()
		})
		startRemover(g)
		<-removing
		g.Ask("m", zkrec.Request{})
		g.Set(g.Tree.Register("job"), zkrec.Switch{}.Open().Encode())
		until(3 * time.Hour)
		g.WantNodes(true, g.Tree.Request("job", "m"), g.Tree.Job("job"))
	})
}

// An instance that comes back while its records are being removed finds them.
func TestPartsOfAnInstanceThatIsBack(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		part := zkrec.InstanceSlot("job", "back")
		g.Server.SetClock(-2 * jobs.DefaultKeepDone)
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "@daily", Everywhere: true}, Since: 1})
		g.Multi(zkconn.CreateOp(g.Tree.Slot(part), nil))
		g.Multi(session.CreateOps(g.Tree.NewSlot(part, 1))...)
		g.Server.SetClock(0)
		removing := make(chan struct{})
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
				return op.Op == zkdev.OpDelete && op.Path == g.Tree.Slot(part)
			}) {
				close(removing)
				return zkdev.Delay(2 * time.Second)
			}
			return zkdev.Pass()
		})
		startRemover(g)
		<-removing
		g.NewMember(member.Config{ID: "back"}).Start()
		roomtest.Pass(70 * roomtest.SyncPeriod)
		g.WantNodes(true, g.Tree.Slot(part))
	})
}

package keeper_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Manual edits of jobs with shards. None of them may make an instance retry in a tight loop.

// countMultis counts the transactions that a member sends and that change a path with part in it.
func countMultis(g *roomtest.Group, sid, part string) *atomic.Int32 {
	var n atomic.Int32
	g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if r.Client == sid && slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
			return op.Op != zkdev.OpCheck && strings.Contains(op.Path, part)
		}) {
			n.Add(1)
		}
		return zkdev.DelayReply(time.Millisecond) // a loop takes time, so the bubble does not hang
	})
	return &n
}

func TestInvalidNumberOfShards(t *testing.T) {
	t.Parallel()
	for _, record := range []string{
		`{"schedule":"@daily","shards":-1}`, `{"schedule":"@daily","shards":2000000000}`,
		`{"schedule":"@daily","shards":3,"layout":{"shards":-1}}`, `{"schedule":"@daily","shards":3,"layout":{"shards":2000000000}}`,
	} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.SubmitSharded(2)
				a := start(g, "a")
				roomtest.Pass(3 * roomtest.SyncPeriod)
				g.Set(g.Tree.Job("job"), []byte(record))
				roomtest.Pass(3 * roomtest.SyncPeriod)
				select {
				case err := <-a.Ended:
					g.T.Fatalf("ended: %v", err)
				default:
				}
				if text := a.Log.String(); !strings.Contains(text, "is out of range, want 1 to 1024") {
					g.T.Errorf("log %q, want the reason", text)
				}
			})
		})
	}
}

func TestNodesOfFormerShardsAreDeletedOnce(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		deletions := countMultis(g, "a", "/job/history")
		g.Reshard(3)
		roomtest.Pass(20 * roomtest.SyncPeriod)
		if got := a.Slots(); !slices.Equal(got, []string{"job[0]", "job[1]", "job[2]"}) {
			g.T.Fatalf("owned: %v", got)
		}
		if n := deletions.Load(); n != 1 {
			g.T.Errorf("%d transactions to delete the job's own nodes, want 1", n)
		}
	})
}

func TestNodesBelowAFormerShardAreForeign(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(3)
		start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		note := g.Tree.Slot("job[2]") + "/note"
		g.Multi(zkconn.CreateOp(note, nil))
		deletions := countMultis(g, "a", "/shards/2")
		g.Reshard(2)
		roomtest.Pass(20 * roomtest.SyncPeriod)
		if n := deletions.Load(); n > 45 { // a sync period is shortened by up to a half
			g.T.Errorf("%d transactions in 20 sync periods", n)
		}
		g.Multi(zkconn.DeleteOp(note, zkconn.AnyVersion))
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if _, _, found := g.Get(g.Tree.Slot("job[2]")); found {
			g.T.Error("the shard was not deleted after the foreign node was")
		}
	})
}

func TestShardsThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		var refused atomic.Bool
		var tries atomic.Int32
		refused.Store(true)
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			creates := slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return strings.HasSuffix(op.Path, "/shards/0/alive") })
			if r.Client != "a" || !refused.Load() || !creates {
				return zkdev.Pass()
			}
			tries.Add(1)
			return zkdev.Refuse(zkdev.NoAuth)
		})
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(20 * roomtest.SyncPeriod)
		if n := tries.Load(); n == 0 || n > 45 {
			g.T.Errorf("%d tries in 20 sync periods", n)
		}
		refused.Store(false)
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if got := a.Slots(); !slices.Equal(got, []string{"job[0]", "job[1]"}) {
			g.T.Errorf("owned: %v", got)
		}
	})
}

func TestNodesThatAreNotShards(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		var ops []zkconn.Op
		for _, name := range []string{"00", "+1", "-1", "1x", "x"} {
			ops = append(ops, zkconn.CreateOp(g.Tree.Shards("job")+"/"+name, nil))
		}
		g.Multi(ops...)
		changes := countMultis(g, "a", "/shards/")
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		made := changes.Load()
		if got := a.Slots(); !slices.Equal(got, []string{"job[0]", "job[1]"}) {
			g.T.Errorf("owned: %v", got)
		}
		if roomtest.Pass(10 * roomtest.SyncPeriod); changes.Load() > made+100 { // heartbeats among them
			g.T.Errorf("%d changes, and %d in 10 sync periods", made, changes.Load()-made)
		}
	})
}

// An instance that cannot run the job creates its shards if no other does, so that missed ticks are
// noticed.
func TestShardsThatNobodyCanRunAreMissed(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a", "job")
		roomtest.Pass(5 * time.Minute)
		a.Lock()
		defer a.Unlock()
		if len(a.Missed) == 0 {
			g.T.Error("missed ticks were not reported")
		}
	})
}

// A delayed write for a job must not apply to a job that was resubmitted under the same name and
// happens to have the same version.
func TestChangeOfShardsDoesNotReachAnotherJob(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		delayed := g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			writes := slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
				return op.Op == zkdev.OpSetData && op.Path == g.Tree.Job("job")
			})
			if r.Client != "a" || !writes {
				return zkdev.Pass()
			}
			return zkdev.Delay(time.Second)
		})
		g.Reshard(3)
		roomtest.Pass(500 * time.Millisecond) // the layout is being written
		g.Multi(g.Cancel()...)
		g.SubmitSharded(5)
		g.Set(g.Tree.Job("job"), g.Spec().Encode()) // the same version as before
		roomtest.Pass(time.Second)
		delayed()
		if spec := g.Spec(); spec.Job.Shards != 5 || spec.Resizing() {
			g.T.Errorf("spec %+v, layout %+v, want that of the new job", spec.Job, spec.Layout)
		}
		roomtest.Pass(4 * roomtest.SyncPeriod)
		if got := a.Slots(); len(got) != 5 {
			g.T.Errorf("owned %v", fmt.Sprint(got))
		}
	})
}

package coord

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// countRequests counts the requests of a client, except for heartbeats.
func countRequests(g *group, client string) *atomic.Int32 {
	var n atomic.Int32
	for _, op := range []zkdev.Op{zkdev.OpGetData, zkdev.OpGetChildren2, zkdev.OpExists} {
		g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
			if r.Client == client {
				n.Add(1)
			}
			return zkdev.DelayReply(time.Millisecond) // a loop takes time, so the bubble does not hang
		})
	}
	return &n
}

// An owner record with an ID that is no node's name names nobody: the job is taken over, and nobody
// asks without a pause.
func TestOwnerRecordThatNamesAPath(t *testing.T) {
	t.Parallel()
	for _, sid := range []string{"../..", "/", ".", "ghost"} {
		t.Run(sid, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				g.Create(g.Tree.Heartbeat("job", "a"), "")
				g.Set(g.Tree.Alive("job"), fmt.Appendf(nil, `{"sid":%q,"incarnation":"x"}`, sid))
				n := countRequests(g, "a")
				a := g.join("a")
				roomtest.Pass(4 * roomtest.SessionTimeout)
				a.Ownership()
				if n.Load() > 300 {
					g.T.Errorf("%d reads in four sessions", n.Load())
				}
			})
		})
	}
}

// An instance record that may not be read concerns that instance alone: it counts as alive, which
// is said once, and the jobs of a dead instance are taken over.
func TestInstanceRecordThatMayNotBeRead(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("evil"), []byte("hidden")))
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == g.Tree.Instance("evil") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		b := g.join("b")
		n := countRequests(g, "b")
		a.client.Partition()
		roomtest.Pass(4 * roomtest.SessionTimeout)
		b.Ownership()
		if n.Load() > 300 {
			g.T.Errorf("%d reads in four sessions", n.Load())
		}
		if n := strings.Count(b.log.String(), "path="+g.Tree.Instance("evil")); n != 1 {
			g.T.Errorf("logged %d times, want once:\n%s", n, b.log)
		}
	})
}

// One job whose owner record may not be read does not keep the others from being taken over, and is
// not asked for without a pause.
func TestOwnerRecordThatMayNotBeRead(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("bad")
		g.Submit("job")
		var refused atomic.Int32
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path != g.Tree.Alive("bad") {
				return zkdev.DelayReply(time.Millisecond)
			}
			refused.Add(1)
			return zkdev.Refuse(zkdev.NoAuth)
		})
		a := g.join("a")
		roomtest.Pass(10 * roomtest.SyncPeriod)
		a.Ownership()
		if n := refused.Load(); n > 20 {
			g.T.Errorf("asked for %d times in 10 sync periods", n)
		}
		if n := strings.Count(a.log.String(), "path="+g.Tree.Alive("bad")); n != 1 {
			g.T.Errorf("logged %d times, want once:\n%s", n, a.log)
		}
	})
}

// A heartbeat with a node below it cannot be deleted: nobody asks for that without a pause, and it
// keeps no instance from stopping.
func TestHeartbeatWithANodeBelow(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.Submit("stray")
		g.Create(g.Tree.Heartbeat("stray", "ghost"), "")
		g.Create(g.Tree.Heartbeat("stray", "ghost")+"/x", "")
		a := g.join("a")
		a.Ownership()
		g.Set(g.Tree.Alive("stray"), zkrec.Owner{SID: "a", Incarnation: "a-1"}.Encode())
		g.Create(g.Tree.Heartbeat("stray", "a"), "")
		n := countRequests(g, "a")
		roomtest.Pass(4 * roomtest.SessionTimeout)
		if n.Load() > 300 {
			g.T.Errorf("%d reads in four sessions", n.Load())
		}
		g.Create(g.Tree.Heartbeat("job", "a")+"/x", "")
		a.Leave()
		select {
		case err := <-a.ended:
			if err != nil {
				g.T.Errorf("stopped with %v", err)
			}
		case <-time.After(4 * roomtest.SessionTimeout):
			g.T.Error("not stopped")
		}
	})
}

// A list of jobs that is too long to be read is said once, and ends nothing: jobs that are known
// stay owned, and an instance that starts joins the group.
func TestTooManyNodesBesideTheJobs(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		for first := 0; first < 43_000; first += 1000 {
			ops := make([]zkconn.Op, 1000)
			for k := range ops {
				ops[k] = zkconn.CreateOp(g.Tree.Job(fmt.Sprintf(" %0199d", first+k)), nil)
			}
			g.Multi(ops...)
		}
		b := g.join("b")
		roomtest.Pass(4 * roomtest.SessionTimeout)
		for _, i := range []*instance{a, b} {
			log := i.log.String()
			if n := strings.Count(log, "path="+g.Tree.Root()+" err=\"zookeeper children /group: the node's data or list of children is too long"); n != 1 {
				g.T.Errorf("logged %d times, want once:\n%.2000s", n, log)
			}
			if strings.Contains(log, "connection lost") {
				g.T.Errorf("the connection was lost:\n%.2000s", log)
			}
		}
		if data, stat, _ := g.Get(g.Tree.Heartbeat("job", "a")); stat.Version < 10 {
			g.T.Errorf("a's heartbeat %s has version %d: it no longer owns the job", data, stat.Version)
		}
		g.WantNodes(true, g.Tree.Instance("a"), g.Tree.Instance("b"))
	})
}

// An answer that says neither that the result was written nor that it was not is no answer: the
// result is written in the end.
func TestResultIsWrittenAfterAnUnclearAnswer(t *testing.T) {
	t.Parallel()
	for _, code := range []zkdev.Code{-127, -125, -122, -7, -4, -1} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				a := g.join("a")
				o := a.Ownership()
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
				g.OnMulti("/tick", zkdev.Refuse(code))
				a.MustCommit(roomtest.Outcome(claimed, "ok"))
				_, entries := g.Records()
				if !slices.ContainsFunc(entries, func(e zkrec.Entry) bool { return e.RunID == "r1" }) {
					g.T.Errorf("the history has %v, want r1", entries)
				}
			})
		})
	}
}

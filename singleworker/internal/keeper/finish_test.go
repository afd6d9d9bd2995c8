package keeper_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// once is a job whose only tick comes after a minute.
func once() zkrec.Spec {
	tick := roomtest.Midnight.Add(time.Minute)
	return zkrec.Spec{
		Job:   jobs.Job{Schedule: "@at " + tick.Format(time.RFC3339), KeepDone: time.Hour},
		Since: roomtest.Midnight.UnixMilli(),
	}
}

// A job is not done if a run of it is asked for, or begins, whether that is before its keeper looks
// or after.
func TestJobThatIsAboutToBeDone(t *testing.T) {
	t.Parallel()
	tick := roomtest.Midnight.Add(time.Minute).UnixMilli()
	settled := zkrec.Tick{Watermark: tick}
	ask := func(g *roomtest.Group) { // as an operator does
		g.Multi(zkconn.SetOp(g.Tree.Requests("job"), nil, zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Request("job", "m"), zkrec.Request{At: time.Now()}.Encode()))
	}
	for what, c := range map[string]struct {
		before, late func(g *roomtest.Group)
		done         bool
	}{
		"nothing comes between":        {done: true},
		"a run is asked for":           {before: ask},
		"a run is asked for meanwhile": {late: ask},
		"a run begins meanwhile": {late: func(g *roomtest.Group) {
			begun := settled
			begun.Run = zkrec.Run{Tick: tick, RunID: "r", Manual: "m", SID: "a", Attempt: 1, State: history.StateRunning}
			g.Set(g.Tree.Tick("job"), begun.Encode())
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.SubmitSpec("job", once())
				a := start(g, "a")
				until(time.Minute)
				if got := a.Slots(); len(got) != 1 {
					g.T.Fatalf("owned %v", got)
				}
				writes := 0
				g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					for _, op := range r.Ops {
						if op.Op == zkdev.OpSetData && op.Path == g.Tree.Job("job") {
							if writes++; writes == 1 {
								return zkdev.Delay(time.Second)
							}
						}
					}
					return zkdev.Pass()
				})
				if c.before != nil {
					c.before(g)
				}
				g.Set(g.Tree.Tick("job"), settled.Encode())
				roomtest.Pass(500 * time.Millisecond)
				if c.late != nil {
					if writes != 1 {
						g.T.Fatalf("%d writes are under way, want 1", writes)
					}
					c.late(g)
				}
				roomtest.Pass(3 * roomtest.SyncPeriod)
				if done := g.Spec().Done != nil; done != c.done {
					g.T.Errorf("done is %v, want %v", done, c.done)
				}
			})
		})
	}
}

// The only tick of a job has come when the wall clock leaps over it, whatever the monotonic clock
// says.
func TestClockLeapsOverTheOnlyTick(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		var ahead atomic.Int64
		g.Walls = map[string]wall.Clock{"a": func() time.Duration { return time.Duration(ahead.Load()) }}
		g.SubmitSpec("job", once())
		start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.Add(time.Minute).UnixMilli()}.Encode())
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if g.Spec().Done != nil {
			g.T.Fatal("done before its only tick")
		}
		ahead.Store(int64(time.Minute))
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if g.Spec().Done == nil {
			g.T.Error("not done although its only tick has come")
		}
	})
}

// With another schedule come other shards: the ticks of the former shards do not end before it
// begins, also if no tick of them was accounted for until then.
func TestLayoutEndsNotBeforeTheScheduleBegins(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "@yearly", Shards: 2}, Since: roomtest.Midnight.UnixMilli()})
		start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		old := g.Spec()
		spec := old
		spec.Job.Schedule, spec.Job.Shards = "@monthly", 3
		g.Set(g.Tree.Job("job"), spec.Over(old).Encode())
		since := time.Now().UnixMilli()
		roomtest.Pass(4 * roomtest.SyncPeriod)
		if layout := g.Spec().ActiveLayout(); layout.Shards != 3 || layout.Since != since {
			g.T.Errorf("layout %+v, want three shards since %d", layout, since)
		}
	})
}

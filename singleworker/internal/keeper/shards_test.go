package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func wantCompleted(g *roomtest.Group, want []string, members ...*roomtest.Rooms) {
	g.T.Helper()
	roomtest.Pass(3 * roomtest.SyncPeriod)
	var got []string
	for _, m := range members {
		m.Lock()
		got = append(got, m.Done...)
		m.Unlock()
	}
	if !slices.Equal(got, want) {
		g.T.Errorf("completed %q, want %q", got, want)
	}
}

func TestCompleteTicksAreReportedOnce(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"all well":                     zkdev.Pass(),
		"cut before it is applied":     zkdev.CutBefore(),
		"cut after it was applied":     zkdev.CutAfter(),
		"refused by a passing trouble": zkdev.Refuse(zkdev.BadVersion),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.SubmitSharded(3)
				a := start(g, "a")
				roomtest.Pass(3 * roomtest.SyncPeriod)
				if got := a.Slots(); !slices.Equal(got, []string{"job[0]", "job[1]", "job[2]"}) {
					g.T.Fatalf("owned: %v", got)
				}
				g.OnMulti("/shards", action)
				a.Runs(60_000)
				wantCompleted(g, []string{"job at 60000: ok ok ok"}, a)
				a.Runs(120_000)
				wantCompleted(g, []string{"job at 60000: ok ok ok", "job at 120000: ok ok ok"}, a)
			})
		})
	}
}

// A write that is refused is tried again at each sync, although nothing else happens.
func TestCompleteTicksAreRefusedForAWhile(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(3)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		allow := g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return strings.HasSuffix(op.Path, "/shards") }) {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
		a.Runs(60_000)
		roomtest.Pass(5 * roomtest.SyncPeriod)
		allow()
		wantCompleted(g, []string{"job at 60000: ok ok ok"}, a)
	})
}

// A reading that the keeper makes during a write may be outdated when it is processed after it: the
// ticks would be written, and perhaps reported, again.
func TestCompleteTicksAreNotReadWhileTheyAreWritten(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		g.OnMulti("/shards", zkdev.DelayReply(2*time.Second))
		var reads atomic.Int32
		stop := g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.Tree.Shards("job") {
				reads.Add(1)
			}
			return zkdev.Pass()
		})
		a.Runs(60_000)
		roomtest.Pass(100 * time.Millisecond)
		a.Post(a.Sync)
		roomtest.Pass(time.Second) // no reply yet
		stop()
		if n := reads.Load(); n > 0 {
			g.T.Errorf("%d reads during a write", n)
		}
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
		a.Runs(120_000)
		wantCompleted(g, []string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// The next keeper of the shards reports the ticks that the previous one has not reported, and
// nothing twice.
func TestKeeperOfShardsChanges(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		a.Runs(60_000)
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
		allow := g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return strings.HasSuffix(op.Path, "/shards") }) {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
		a.Runs(120_000)
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
		a.Stop()
		if err := <-a.Ended; err == nil {
			g.T.Error("it was stopped, and left in good order")
		}
		allow()
		b := start(g, "b")
		roomtest.Pass(2 * roomtest.SessionTimeout)
		wantCompleted(g, []string{"job at 120000: ok ok"}, b)
	})
}

// A keeper knows the result of a shard that the servers then lose. Before it has joined again it
// hears of another shard's result: the tick is not complete, for the first one's run is open.
func TestResultOfAShardIsLost(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		const tick = 60_000
		results := make(map[string]ticks.Commit)
		for _, slot := range a.Slots() {
			o := a.Owned[slot]
			result := roomtest.Outcome(a.MustCommit(roomtest.Claim(o, *o.Record, slot, tick)), history.StateOK)
			result.Slot = slot
			results[slot] = result
		}
		snapshot := g.Server.Snapshot()
		g.Set(g.Tree.Tick("job[0]"), results["job[0]"].Plan.Record.Encode()) // not by its owner, who would write it again
		roomtest.Pass(time.Second)                                           // it reads that
		a.Do(func() { a.Prepare = func(context.Context, int) error { <-time.After(time.Second); return nil } })
		a.Client.Partition()
		if err := g.Server.Restore(snapshot); err != nil {
			g.T.Fatal(err)
		}
		roomtest.Pass(time.Second) // the editor connects again
		g.Set(g.Tree.Tick("job[1]"), results["job[1]"].Plan.Record.Encode())
		a.Client.Heal()
		wantCompleted(g, nil, a)
		data, _, _ := g.Get(g.Tree.Shards("job"))
		if complete, err := zkrec.ParseComplete(data); err != nil || complete.Tick >= tick {
			g.T.Errorf("complete: %s, %v, although the run of a shard is open", data, err)
		}
		a.MustCommit(results["job[0]"])
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
	})
}

// A job is resharded even if replies are lost.
// A keeper that has lost the first slot reports nothing: its successor does.
func TestLateReportOfCompleteTicksIsRefused(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		before, _, _ := g.Get(g.Tree.Shards("job"))
		g.OnMulti("/shards", zkdev.Delay(time.Second))
		a.Runs(60_000)
		roomtest.Pass(500 * time.Millisecond)
		successor := zkrec.Owner{SID: "b", Incarnation: "b-1"}
		g.Multi(
			zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()),
			zkconn.SetOp(g.Tree.Alive("job[0]"), successor.Encode(), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Heartbeat("job[0]", "b"), nil),
		)
		roomtest.Pass(2 * time.Second)
		a.Lock()
		defer a.Unlock()
		if after, _, _ := g.Get(g.Tree.Shards("job")); string(after) != string(before) || len(a.Done) > 0 {
			g.T.Errorf("reported %q, and wrote %s", a.Done, after)
		}
	})
}

// A layout that is written late does not undo an operator's later change.
func TestLateLayoutIsRefused(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		before := g.Spec()
		spec := before
		spec.Job.Shards = 3
		spec = spec.Over(before)
		g.Set(g.Tree.Job("job"), spec.Encode())
		g.OnMulti(g.Tree.Job("job"), zkdev.Delay(time.Second))
		roomtest.Pass(500 * time.Millisecond)
		spec.Job.Description = "changed"
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if got := g.Spec(); got.Job.Description != "changed" || got.Resizing() {
			g.T.Errorf("the spec is %+v, want the change, and 3 shards", got)
		}
	})
}

// A run that has begun on a shard while the next layout is being written keeps it from being
// written: runs of two layouts are not in progress at once.
func TestRunBeforeTheNextLayout(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		path, late := g.Tree.Tick("job[0]"), false
		remove := g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "a" || late || !slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Path == path }) {
				return zkdev.Pass()
			}
			late = true
			return zkdev.Delay(time.Second)
		})
		defer remove()
		g.Reshard(3)
		roomtest.Pass(500 * time.Millisecond)
		if !late {
			g.T.Fatal("no layout is under way")
		}
		data, _, _ := g.Get(path)
		record, err := zkrec.ParseTick(data, time.Time{})
		if err != nil {
			g.T.Fatal(err)
		}
		record.Run = zkrec.Run{Tick: record.Watermark, RunID: "r", Manual: "m", SID: "a", Attempt: 1, State: history.StateRunning}
		g.Set(path, record.Encode())
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if spec := g.Spec(); !spec.Resizing() {
			g.T.Errorf("the spec is %+v while a run of the former layout is in progress", spec)
		}
	})
}

func TestReplyToReshardingIsLost(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"all well":                 zkdev.Pass(),
		"cut before it is applied": zkdev.CutBefore(),
		"cut after it was applied": zkdev.CutAfter(),
	} {
		for _, shards := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s, to %d", what, shards), func(t *testing.T) {
				t.Parallel()
				roomtest.InGroup(t, func(g *roomtest.Group) {
					g.SubmitSharded(3)
					a := start(g, "a")
					roomtest.Pass(3 * roomtest.SyncPeriod)
					tries := 0
					remove := g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
						writes := slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
							return op.Op == zkdev.OpSetData && op.Path == g.Tree.Job("job")
						})
						if !writes || r.Client != "a" {
							return zkdev.Pass()
						}
						if tries++; tries%2 == 0 {
							return zkdev.Pass() // every other time
						}
						return action
					})
					defer remove()
					g.Reshard(shards)
					roomtest.Pass(8 * roomtest.SyncPeriod)
					want := zkrec.Sharding{Shards: shards}.Slots("job")
					if got := a.Slots(); !slices.Equal(got, want) {
						g.T.Errorf("owned: %v, want %v", got, want)
					}
					if spec := g.Spec(); spec.Resizing() {
						g.T.Errorf("%d shards, layout %+v", spec.Job.Shards, spec.Layout)
					}
					children, _, err := g.Editor.Children(context.Background(), g.Tree.Shards("job"))
					if err != nil || len(children) != shards {
						g.T.Errorf("nodes of shards: %v, %v", children, err)
					}
				})
			})
		}
	}
}

// The last tick of a layout is run by all of its shards and no others: one shard has claimed it
// when the change comes.
func TestLastTickOfALayout(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		last := roomtest.Midnight.Add(time.Minute).UnixMilli()
		a.Lock()
		first, second := a.Owned["job[0]"], a.Owned["job[1]"]
		a.Unlock()
		claimed := a.MustCommit(roomtest.Claim(first, *first.Record, "r1", last))
		g.Reshard(4)
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if layout := g.Spec().ActiveLayout(); layout.Shards != 2 || layout.Until != last {
			g.T.Fatalf("layout %+v, want two shards through %d", layout, last)
		}
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(second, *second.Record, "r2", last)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("a claim under the former spec = %v", err)
		}
		a.Lock()
		second = a.Owned["job[1]"]
		a.Unlock()
		one := roomtest.Outcome(claimed, history.StateOK)
		one.Slot = "job[0]"
		a.MustCommit(one)
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if layout := g.Spec().ActiveLayout(); layout.Shards != 2 {
			g.T.Fatalf("layout %+v although a shard has not run the last tick", layout)
		}
		other := roomtest.Outcome(a.MustCommit(roomtest.Claim(second, *second.Record, "r2", last)), history.StateOK)
		other.Slot = "job[1]"
		a.MustCommit(other)
		wantCompleted(g, []string{fmt.Sprintf("job at %d: ok ok", last)}, a)
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if layout := g.Spec().ActiveLayout(); layout.Shards != 4 || layout.Since != last {
			g.T.Errorf("layout %+v, want four shards since %d", layout, last)
		}
		a.Lock()
		defer a.Unlock()
		if len(a.Owned) != 4 || a.Owned["job[3]"].Record.Watermark != last {
			g.T.Errorf("owned %v, the new shard with %+v", len(a.Owned), a.Owned["job[3]"].Record)
		}
	})
}

// A shard that was deleted manually is recreated, and does not start with ticks that all shards
// have finished.
func TestShardDeletedManually(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		a.Runs(60_000)
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
		var ops []zkconn.Op
		for _, path := range []string{
			g.Tree.Heartbeat("job[1]", "a"), g.Tree.Alive("job[1]"), g.Tree.Tick("job[1]"), g.Tree.History("job[1]"),
			g.Tree.Requests("job[1]"), g.Tree.Alarm("job[1]"), g.Tree.Slot("job[1]"),
		} {
			ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
		}
		g.Multi(ops...)
		roomtest.Pass(6 * roomtest.SyncPeriod)
		a.Lock()
		o, owned := a.Owned["job[1]"]
		a.Unlock()
		if !owned || o.Record.Watermark != 60_000 {
			g.T.Errorf("owned %v with %+v, want Watermark 60000", owned, o.Record)
		}
		a.Runs(120_000)
		wantCompleted(g, []string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// A job whose record of complete ticks cannot be read is invalid: nobody runs it until it is
// repaired, and nothing is reported twice.
func TestRecordOfCompleteTicksIsGarbage(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		a.Runs(60_000)
		wantCompleted(g, []string{"job at 60000: ok ok"}, a)
		g.Set(g.Tree.Shards("job"), []byte("garbage"))
		roomtest.Pass(70 * roomtest.SyncPeriod) // no watch tells of it
		if text := a.Log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "path="+g.Tree.Shards("job")) {
			g.T.Errorf("log %q, want one error with the path", text)
		}
		if slots := a.Slots(); len(slots) > 0 {
			g.T.Errorf("%v run, want nothing", slots)
		}
		g.Set(g.Tree.Shards("job"), zkrec.Complete{Tick: 60_000}.Encode())
		roomtest.Pass(70 * roomtest.SyncPeriod)
		a.Runs(120_000)
		wantCompleted(g, []string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// A large job that is being deleted counts as gone.
func TestCanceledJobIsGone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		a := start(g, "a")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		spec := g.Spec()
		spec.Canceled = true
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(time.Second)
		if got := a.Slots(); len(got) != 0 || len(a.Disowned) != 2 || !errors.Is(a.Disowned[0], owner.ErrCanceled) {
			g.T.Errorf("owned %v, disowned because of %v", got, a.Disowned)
		}
		g.Multi(zkconn.DeleteOp(g.Tree.History("job[1]"), zkconn.AnyVersion))
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if _, _, found := g.Get(g.Tree.History("job[1]")); found {
			g.T.Error("a node of the job was created again")
		}
	})
}

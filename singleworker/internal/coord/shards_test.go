package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// submitSharded submits the job with the given number of shards.
func (g *group) submitSharded(shards int) {
	g.t.Helper()
	spec := zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?", Shards: shards}, Since: 1}
	var ops []zkconn.Op
	for _, node := range g.tree.NewJob("job", spec) {
		ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
	}
	g.multi(ops...)
}

// spec reads the job's.
func (g *group) spec() zkrec.Spec {
	g.t.Helper()
	data, _, _ := g.get(g.tree.Job("job"))
	spec, err := zkrec.ParseSpec("job", data)
	if err != nil {
		g.t.Fatal(err)
	}
	return spec
}

// reshard changes the number of shards.
func (g *group) reshard(shards int) {
	g.t.Helper()
	old := g.spec()
	spec := old
	spec.Job.Shards = shards
	g.set(g.tree.Job("job"), spec.Over(old, midnight, time.Now()).Encode())
}

// slots lists the slots that the member owns.
func (m *instance) slots() (slots []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot := range m.owned {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots
}

// runs makes the member run a tick in each slot that it owns.
func (m *instance) runs(tick int64) {
	m.g.t.Helper()
	for _, slot := range m.slots() {
		m.mu.Lock()
		o := m.owned[slot]
		m.mu.Unlock()
		var current zkrec.Tick
		data, _, _ := m.g.get(m.g.tree.Tick(slot))
		if parsed, err := zkrec.ParseTick(data, time.Time{}); err == nil {
			current = parsed
		}
		claimed := m.mustCommit(claim(o, current, fmt.Sprintf("%s at %d", slot, tick), tick))
		done := outcome(claimed, zkrec.RunOK)
		done.Slot = slot
		m.mustCommit(done)
	}
}

func (g *group) wantCompleted(want []string, members ...*instance) {
	g.t.Helper()
	pass(3 * syncPeriod)
	var got []string
	for _, m := range members {
		m.mu.Lock()
		got = append(got, m.completed...)
		m.mu.Unlock()
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("completed %q, want %q", got, want)
	}
}

// A decision under an old spec is refused; a result is not.
func TestClaimsRequireTheSpecVersion(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		paused := g.spec()
		paused.Paused = &zkrec.Pause{Since: 1}
		g.set(g.tree.Job("job"), paused.Encode())
		done := a.mustCommit(outcome(claimed, zkrec.RunOK))
		if _, err := a.Commit(claim(o, done, "r2", 120)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.t.Errorf("a claim under the former spec = %v, want ticks.ErrSpecChanged", err)
		}
		pass(time.Second)
		now := a.ownership()
		if now.Job.SpecVersion == o.Job.SpecVersion || now.Spec.Paused == nil {
			g.t.Errorf("reported %+v, want the new spec", now)
		}
		if _, err := a.Commit(claim(o, done, "r2", 120)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.t.Errorf("the same a second later = %v, want ticks.ErrSpecChanged", err)
		}
		a.mustCommit(claim(now, done, "r3", 180))
	})
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
			inGroup(t, func(g *group) {
				g.submitSharded(3)
				a := g.join("a")
				pass(3 * syncPeriod)
				if got := a.slots(); !slices.Equal(got, []string{"job[0]", "job[1]", "job[2]"}) {
					g.t.Fatalf("owned: %v", got)
				}
				g.onMulti("/shards", action)
				a.runs(60_000)
				g.wantCompleted([]string{"job at 60000: ok ok ok"}, a)
				a.runs(120_000)
				g.wantCompleted([]string{"job at 60000: ok ok ok", "job at 120000: ok ok ok"}, a)
			})
		})
	}
}

// What the keeper reads during a write may be outdated when it is processed after it: the ticks would be
// written, and perhaps reported, again.
func TestCompleteTicksAreNotReadWhileTheyAreWritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		g.onMulti("/shards", zkdev.DelayReply(2*time.Second))
		var reads atomic.Int32
		stop := g.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.tree.Shards("job") {
				reads.Add(1)
			}
			return zkdev.Pass()
		})
		a.runs(60_000)
		pass(100 * time.Millisecond)
		a.loop.Post(a.sync)
		pass(time.Second) // no reply yet
		stop()
		if n := reads.Load(); n > 0 {
			g.t.Errorf("%d reads during a write", n)
		}
		g.wantCompleted([]string{"job at 60000: ok ok"}, a)
		a.runs(120_000)
		g.wantCompleted([]string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// The next keeper of the shards reports what the previous one has not reported, and nothing twice.
func TestKeeperOfShardsChanges(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		a.runs(60_000)
		g.wantCompleted([]string{"job at 60000: ok ok"}, a)
		allow := g.server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return strings.HasSuffix(op.Path, "/shards") }) {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
		a.runs(120_000)
		g.wantCompleted([]string{"job at 60000: ok ok"}, a)
		a.stop()
		if err := <-a.ended; err == nil {
			g.t.Error("it was stopped, and left in good order")
		}
		allow()
		b := g.join("b")
		pass(2 * sessionTimeout)
		g.wantCompleted([]string{"job at 120000: ok ok"}, b)
	})
}

// A job is resharded even if replies are lost.
func TestReplyToReshardingIsLost(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"all well":                 zkdev.Pass(),
		"cut before it is applied": zkdev.CutBefore(),
		"cut after it was applied": zkdev.CutAfter(),
	} {
		for _, shards := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s, to %d", what, shards), func(t *testing.T) {
				inGroup(t, func(g *group) {
					g.submitSharded(3)
					a := g.join("a")
					pass(3 * syncPeriod)
					tries := 0
					remove := g.server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
						writes := slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
							return op.Op == zkdev.OpSetData && op.Path == g.tree.Job("job")
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
					g.reshard(shards)
					pass(8 * syncPeriod)
					want := zkrec.Sharding{Shards: shards}.Slots("job")
					if got := a.slots(); !slices.Equal(got, want) {
						g.t.Errorf("owned: %v, want %v", got, want)
					}
					if spec := g.spec(); spec.Resizing() {
						g.t.Errorf("%d shards, layout %+v", spec.Job.Shards, spec.Layout)
					}
					children, _, err := g.editor.Children(context.Background(), g.tree.Shards("job"))
					if err != nil || len(children) != shards {
						g.t.Errorf("nodes of shards: %v, %v", children, err)
					}
				})
			})
		}
	}
}

// The last tick of a layout is run by all of its shards and no others: one shard has claimed it when the
// change comes.
func TestLastTickOfALayout(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		last := midnight.Add(time.Minute).UnixMilli()
		a.mu.Lock()
		first, second := a.owned["job[0]"], a.owned["job[1]"]
		a.mu.Unlock()
		claimed := a.mustCommit(claim(first, first.Record, "r1", last))
		g.reshard(4)
		pass(3 * syncPeriod)
		if layout := g.spec().ActiveLayout(); layout.Shards != 2 || layout.Until != last {
			g.t.Fatalf("layout %+v, want two shards through %d", layout, last)
		}
		if _, err := a.Commit(claim(second, second.Record, "r2", last)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.t.Errorf("a claim under the former spec = %v", err)
		}
		a.mu.Lock()
		second = a.owned["job[1]"]
		a.mu.Unlock()
		one := outcome(claimed, zkrec.RunOK)
		one.Slot = "job[0]"
		a.mustCommit(one)
		pass(3 * syncPeriod)
		if layout := g.spec().ActiveLayout(); layout.Shards != 2 {
			g.t.Fatalf("layout %+v although a shard has not run the last tick", layout)
		}
		other := outcome(a.mustCommit(claim(second, second.Record, "r2", last)), zkrec.RunOK)
		other.Slot = "job[1]"
		a.mustCommit(other)
		g.wantCompleted([]string{fmt.Sprintf("job at %d: ok ok", last)}, a)
		pass(3 * syncPeriod)
		if layout := g.spec().ActiveLayout(); layout.Shards != 4 || layout.Since != last {
			g.t.Errorf("layout %+v, want four shards since %d", layout, last)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.owned) != 4 || a.owned["job[3]"].Record.Watermark != last {
			g.t.Errorf("owned %v, the new shard with %+v", len(a.owned), a.owned["job[3]"].Record)
		}
	})
}

// A shard that was deleted manually is recreated, and does not start with ticks that all shards have finished.
func TestShardDeletedManually(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		a.runs(60_000)
		g.wantCompleted([]string{"job at 60000: ok ok"}, a)
		var ops []zkconn.Op
		for _, path := range []string{
			g.tree.Heartbeat("job[1]", "a"), g.tree.Alive("job[1]"), g.tree.Tick("job[1]"), g.tree.History("job[1]"),
			g.tree.Requests("job[1]"), g.tree.Alarm("job[1]"), g.tree.Slot("job[1]"),
		} {
			ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
		}
		g.multi(ops...)
		pass(6 * syncPeriod)
		a.mu.Lock()
		o, owned := a.owned["job[1]"]
		a.mu.Unlock()
		if !owned || o.Record.Watermark != 60_000 {
			g.t.Errorf("owned %v with %+v, want Watermark 60000", owned, o.Record)
		}
		a.runs(120_000)
		g.wantCompleted([]string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// A job whose record of complete ticks cannot be read is invalid: nobody runs it until it is repaired, and
// nothing is reported twice.
func TestRecordOfCompleteTicksIsGarbage(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		a.runs(60_000)
		g.wantCompleted([]string{"job at 60000: ok ok"}, a)
		g.set(g.tree.Shards("job"), []byte("garbage"))
		pass(70 * syncPeriod) // no watch tells of it
		if text := a.log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "path="+g.tree.Shards("job")) {
			g.t.Errorf("log %q, want one error with the path", text)
		}
		if slots := a.slots(); len(slots) > 0 {
			g.t.Errorf("%v run, want nothing", slots)
		}
		g.set(g.tree.Shards("job"), zkrec.Complete{Tick: 60_000}.Encode())
		pass(70 * syncPeriod)
		a.runs(120_000)
		g.wantCompleted([]string{"job at 60000: ok ok", "job at 120000: ok ok"}, a)
	})
}

// A large job that is being deleted counts as gone.
func TestCanceledJobIsGone(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submitSharded(2)
		a := g.join("a")
		pass(3 * syncPeriod)
		spec := g.spec()
		spec.Canceled = true
		g.set(g.tree.Job("job"), spec.Encode())
		pass(time.Second)
		if got := a.slots(); len(got) != 0 || len(a.disowned) != 2 || !errors.Is(a.disowned[0], owner.ErrCanceled) {
			g.t.Errorf("owned %v, disowned because of %v", got, a.disowned)
		}
		g.multi(zkconn.DeleteOp(g.tree.History("job[1]"), zkconn.AnyVersion))
		pass(3 * syncPeriod)
		if _, _, found := g.get(g.tree.History("job[1]")); found {
			g.t.Error("a node of the job was created again")
		}
	})
}

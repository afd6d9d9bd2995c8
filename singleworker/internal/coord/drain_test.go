package coord

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// order writes an operator's order for an instance.
func (g *group) order(sid string, o zkrec.Order) {
	g.t.Helper()
	g.create(g.tree.Order(sid), string(o.Encode()))
}

// wantState expects an instance's published state and a job's owner.
func (g *group) wantState(sid, state, job, owner string) {
	g.t.Helper()
	data, _, _ := g.get(g.tree.Instance(sid))
	if record, err := zkrec.ParseInstance(data); err != nil || record.State != state {
		g.t.Errorf("%s says it is %q, %v; want %q", sid, record.State, err, state)
	}
	data, _, _ = g.get(g.tree.Alive(job))
	if record, err := zkrec.ParseOwner(data); err != nil || record.SID != owner {
		g.t.Errorf("%s is owned by %q, %v; want %q", job, record.SID, err, owner)
	}
}

const moment = 50 * time.Millisecond // for immediate effects

func TestOrderClosesAndOpensAnInstance(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]zkrec.Order{
		zkrec.InstanceDisabled: {By: "alice"}, zkrec.InstanceDrained: {Incarnation: "a-1"},
	} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.submit("job")
				a := g.join("a")
				a.ownership()
				g.wantState("a", zkrec.InstanceActive, "job", "a")
				g.order("a", o)
				pass(moment)
				g.wantState("a", name, "job", "")
				pass(5 * syncPeriod)
				g.wantState("a", name, "job", "") // it takes nothing, although the job is free
				g.remove(g.tree.Order("a"))
				pass(moment)
				g.wantState("a", zkrec.InstanceActive, "job", "a")
			})
		})
	}
}

func TestOrderForAnotherIncarnationIsRemoved(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		if err := g.editor.EnsureRoot(g.t.Context(), g.tree.Orders()); err != nil {
			g.t.Fatal(err)
		}
		g.order("a", zkrec.Order{Incarnation: "a-0"})
		g.join("a").ownership()
		if _, _, found := g.get(g.tree.Order("a")); found {
			g.t.Error("the order for an earlier start is left")
		}
	})
}

func TestDisabledInstanceTakesNothingWhenItStarts(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		if err := g.editor.EnsureRoot(g.t.Context(), g.tree.Orders()); err != nil {
			g.t.Fatal(err)
		}
		g.create(g.tree.Order("a"), "written manually, not JSON")
		a := g.join("a")
		pass(5 * syncPeriod)
		g.wantState("a", zkrec.InstanceDisabled, "job", "")
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.disowned) > 0 {
			g.t.Errorf("it owned the job briefly: %v", a.disowned)
		}
	})
}

func TestDrainBecomesDisable(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.join("a").ownership()
		g.order("a", zkrec.Order{Incarnation: "a-1"})
		pass(moment)
		g.set(g.tree.Order("a"), zkrec.Order{By: "bob"}.Encode())
		pass(moment)
		g.wantState("a", zkrec.InstanceDisabled, "job", "")
	})
}

// An order for one incarnation ends with it; an order for the instance stays.
func TestLeavingRemovesOrdersForThisIncarnation(t *testing.T) {
	t.Parallel()
	for incarnation, want := range map[string]bool{"a-1": false, "": true} {
		t.Run(incarnation, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.submit("job")
				a := g.join("a")
				a.ownership()
				g.order("a", zkrec.Order{Incarnation: incarnation})
				pass(moment)
				a.Leave()
				if err := <-a.ended; err != nil {
					g.t.Error(err)
				}
				if _, _, found := g.get(g.tree.Order("a")); found != want {
					g.t.Errorf("order is there: %v, want %v", found, want)
				}
			})
		})
	}
}

func TestDrainedJobsGoToTheOthersAtOnce(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.join("a").ownership()
		g.join("b")
		pass(2 * syncPeriod)
		g.order("a", zkrec.Order{Incarnation: "a-1"})
		pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "b")
		g.remove(g.tree.Order("a"))
		pass(10 * syncPeriod)
		g.wantState("a", zkrec.InstanceActive, "job", "b") // one job need not move
	})
}

// A run in progress may finish; no other starts.
func TestDrainLetsTheRunFinishAndStartsNone(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		drained := make(chan error, 2)
		go func() { drained <- a.Drain(g.t.Context()) }()
		pass(moment)
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		result := outcome(claimed, zkrec.RunOK).Plan.Record
		next := claim(o, result, "r2", 61)
		next.From = claimed // together with the first one's result
		if _, err := a.Commit(next); !errors.Is(err, journal.ErrDraining) {
			g.t.Errorf("a claim: %v, want journal.ErrDraining", err)
		}
		pass(10 * time.Second)
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		if len(drained) > 0 {
			g.t.Errorf("Drain = %v during a run", <-drained)
		}
		a.mustCommit(outcome(claimed, zkrec.RunOK))
		pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
		if err := <-drained; err != nil {
			g.t.Errorf("Drain = %v", err)
		}
		if err := a.Drain(g.t.Context()); err != nil {
			g.t.Errorf("a second Drain = %v", err)
		}
		pass(5 * syncPeriod)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

// A claim whose reply was lost before the order arrived is resolved, not assumed.
func TestDrainWhileTheReplyOfAClaimIsLost(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		g.onMulti("/tick", zkdev.CutAfter())
		answer := make(chan error, 1)
		cm := claim(o, o.Record, "r1", 60)
		go func() { _, err := a.Commit(cm); answer <- err }()
		pass(0)
		go func() { _ = a.Drain(context.Background()) }()
		pass(5 * time.Second)
		if err := <-answer; err != nil {
			g.t.Errorf("the claim, which was written: %v", err)
		}
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		a.mustCommit(outcome(cm.Plan.Record.Normal(), zkrec.RunOK))
		pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

func TestDrainStopsWaitingWhenItsContextEnds(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		ctx, cancel := context.WithTimeoutCause(g.t.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		if err := a.Drain(ctx); err == nil || err.Error() != "enough" {
			g.t.Errorf("Drain = %v, want the cause of the end of its context", err)
		}
		a.mustCommit(outcome(claimed, zkrec.RunOK))
		pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "") // the drain continues
		a.Leave()
		if err := <-a.ended; err != nil {
			g.t.Errorf("Run = %v", err)
		}
		if err := a.Drain(g.t.Context()); err != nil {
			g.t.Errorf("Drain after the end = %v", err)
		}
	})
}

func TestRejoiningInstanceIsStillClosed(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		a.ownership()
		if err := a.Drain(g.t.Context()); err != nil {
			g.t.Fatal(err)
		}
		if err := g.server.ExpireSession(a.loop.Conn.SessionID()); err != nil {
			g.t.Fatal(err)
		}
		pass(5 * syncPeriod)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

// If an ACL hides the orders, the group works without them.
func TestOrdersThatMayNotBeRead(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		cfg := g.conn(g.server.Client("root"))
		cfg.Auth, cfg.ACL = "root:secret", "auth::cdrwa"
		root, err := zkconn.Open(cfg, func(zkconn.Event) {})
		if err != nil {
			g.t.Fatal(err)
		}
		defer root.Close()
		if err := root.EnsureRoot(g.t.Context(), g.tree.Orders()); err != nil {
			g.t.Fatal(err)
		}
		g.join("a").ownership()
	})
}

// A leaving instance deletes its node only after it has stopped taking slots. Before the others know that it
// leaves, it may be offered a slot and take it; without its node it would count as dead at that moment.
func TestLeavingFirstStopsTakingSlots(t *testing.T) {
	inGroup(t, func(g *group) {
		b := g.join("b")
		pass(2 * syncPeriod)
		path := g.tree.Instance("b")
		g.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && op.Path == path }) {
				return zkdev.DelayReply(2 * time.Second)
			}
			return zkdev.Pass()
		})
		b.Leave()
		pass(time.Second)
		if _, _, found := g.get(path); !found {
			g.t.Error("it is gone, and may still take slots")
		}
		pass(2 * time.Second)
		if err := <-b.ended; err != nil {
			g.t.Error(err)
		}
	})
}

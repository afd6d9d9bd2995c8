package coord

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// order writes an operator's order for an instance.
func (g *group) order(sid string, o zkrec.Order) {
	g.T.Helper()
	g.Create(g.Tree.Order(sid), string(o.Encode()))
}

// wantState expects an instance's published state and a job's owner.
func (g *group) wantState(sid, state, job, owner string) {
	g.T.Helper()
	data, _, _ := g.Get(g.Tree.Instance(sid))
	if record, err := zkrec.ParseInstance(data); err != nil || record.State != state {
		g.T.Errorf("%s says it is %q, %v; want %q", sid, record.State, err, state)
	}
	data, _, _ = g.Get(g.Tree.Alive(job))
	if record, err := zkrec.ParseOwner(data); err != nil || record.SID != owner {
		g.T.Errorf("%s is owned by %q, %v; want %q", job, record.SID, err, owner)
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
				g.Submit("job")
				a := g.join("a")
				a.Ownership()
				g.wantState("a", zkrec.InstanceActive, "job", "a")
				g.order("a", o)
				roomtest.Pass(moment)
				g.wantState("a", name, "job", "")
				roomtest.Pass(5 * roomtest.SyncPeriod)
				g.wantState("a", name, "job", "") // it takes nothing, although the job is free
				g.Remove(g.Tree.Order("a"))
				roomtest.Pass(moment)
				g.wantState("a", zkrec.InstanceActive, "job", "a")
			})
		})
	}
}

func TestOrderForAnotherIncarnationIsRemoved(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Orders()); err != nil {
			g.T.Fatal(err)
		}
		g.order("a", zkrec.Order{Incarnation: "a-0"})
		g.join("a").Ownership()
		if _, _, found := g.Get(g.Tree.Order("a")); found {
			g.T.Error("the order for an earlier start is left")
		}
	})
}

func TestDisabledInstanceTakesNothingWhenItStarts(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Orders()); err != nil {
			g.T.Fatal(err)
		}
		g.Create(g.Tree.Order("a"), "written manually, not JSON")
		a := g.join("a")
		roomtest.Pass(5 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceDisabled, "job", "")
		a.Lock()
		defer a.Unlock()
		if len(a.Disowned) > 0 {
			g.T.Errorf("it owned the job briefly: %v", a.Disowned)
		}
	})
}

func TestDrainBecomesDisable(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.join("a").Ownership()
		g.order("a", zkrec.Order{Incarnation: "a-1"})
		roomtest.Pass(moment)
		g.Set(g.Tree.Order("a"), zkrec.Order{By: "bob"}.Encode())
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDisabled, "job", "")
	})
}

// An order for one incarnation ends with it; an order for the instance stays.
func TestLeavingRemovesOrdersForThisIncarnation(t *testing.T) {
	t.Parallel()
	for incarnation, want := range map[string]bool{"a-1": false, "": true} {
		t.Run(incarnation, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.Submit("job")
				a := g.join("a")
				a.Ownership()
				g.order("a", zkrec.Order{Incarnation: incarnation})
				roomtest.Pass(moment)
				a.Leave()
				if err := <-a.ended; err != nil {
					g.T.Error(err)
				}
				if _, _, found := g.Get(g.Tree.Order("a")); found != want {
					g.T.Errorf("order is there: %v, want %v", found, want)
				}
			})
		})
	}
}

func TestDrainedJobsGoToTheOthersAtOnce(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.join("a").Ownership()
		g.join("b")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.order("a", zkrec.Order{Incarnation: "a-1"})
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "b")
		g.Remove(g.Tree.Order("a"))
		roomtest.Pass(10 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceActive, "job", "b") // one job need not move
	})
}

// A run in progress may finish; no other starts.
func TestDrainLetsTheRunFinishAndStartsNone(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		drained := make(chan error, 2)
		go func() { drained <- a.Drain(g.T.Context()) }()
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		result := roomtest.Outcome(claimed, history.StateOK).Plan.Record
		next := roomtest.Claim(o, result, "r2", 61)
		next.From = claimed // together with the first one's result
		if _, err := roomtest.Written(a, next); !errors.Is(err, journal.ErrDraining) {
			g.T.Errorf("a claim: %v, want journal.ErrDraining", err)
		}
		roomtest.Pass(10 * time.Second)
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		if len(drained) > 0 {
			g.T.Errorf("Drain = %v during a run", <-drained)
		}
		a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
		if err := <-drained; err != nil {
			g.T.Errorf("Drain = %v", err)
		}
		if err := a.Drain(g.T.Context()); err != nil {
			g.T.Errorf("a second Drain = %v", err)
		}
		roomtest.Pass(5 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

// A claim whose reply was lost before the order arrived is resolved, not assumed: it needs a
// result, but begins no run.
func TestDrainWhileTheReplyOfAClaimIsLost(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		g.OnMulti("/tick", zkdev.CutAfter())
		answer := make(chan error, 1)
		cm := roomtest.Claim(o, *o.Record, "r1", 60)
		go func() { _, err := roomtest.Written(a, cm); answer <- err }()
		roomtest.Pass(0)
		go func() { _ = a.Drain(context.Background()) }()
		roomtest.Pass(5 * time.Second)
		if err := <-answer; !errors.Is(err, ticks.ErrWithheld) {
			g.T.Errorf("the claim, which was written: %v", err)
		}
		g.wantState("a", zkrec.InstanceDraining, "job", "a")
		a.MustCommit(roomtest.Outcome(cm.Plan.Record.Normal(), history.StateOK))
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

func TestDrainStopsWaitingWhenItsContextEnds(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		ctx, cancel := context.WithTimeoutCause(g.T.Context(), time.Minute, errors.New("enough"))
		defer cancel()
		if err := a.Drain(ctx); err == nil || err.Error() != "enough" {
			g.T.Errorf("Drain = %v, want the cause of the end of its context", err)
		}
		a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		roomtest.Pass(moment)
		g.wantState("a", zkrec.InstanceDrained, "job", "") // the drain continues
		a.Leave()
		if err := <-a.ended; err != nil {
			g.T.Errorf("Run = %v", err)
		}
		if err := a.Drain(g.T.Context()); err != nil {
			g.T.Errorf("Drain after the end = %v", err)
		}
	})
}

func TestRejoiningInstanceIsStillClosed(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		if err := a.Drain(g.T.Context()); err != nil {
			g.T.Fatal(err)
		}
		if err := g.Server.ExpireSession(a.loop.Conn.SessionID()); err != nil {
			g.T.Fatal(err)
		}
		roomtest.Pass(5 * roomtest.SyncPeriod)
		g.wantState("a", zkrec.InstanceDrained, "job", "")
	})
}

// If an ACL hides the orders, the group works without them.
func TestOrdersThatMayNotBeRead(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		cfg := g.Conn(g.Server.Client("root"))
		cfg.Auth, cfg.ACL = "root:secret", "auth::cdrwa"
		root, err := zkconn.Open(cfg, func(zkconn.Event) {})
		if err != nil {
			g.T.Fatal(err)
		}
		defer root.Close()
		if err := root.EnsureRoot(g.T.Context(), g.Tree.Orders()); err != nil {
			g.T.Fatal(err)
		}
		g.join("a").Ownership()
	})
}

// A leaving instance deletes its node only after it has stopped taking slots. Before the others
// know that it leaves, it may be offered a slot and take it; without its node it would count as
// dead at that moment.
func TestLeavingFirstStopsTakingSlots(t *testing.T) {
	inGroup(t, func(g *group) {
		b := g.join("b")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		path := g.Tree.Instance("b")
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && op.Path == path }) {
				return zkdev.DelayReply(2 * time.Second)
			}
			return zkdev.Pass()
		})
		b.Leave()
		roomtest.Pass(time.Second)
		if _, _, found := g.Get(path); !found {
			g.T.Error("it is gone, and may still take slots")
		}
		roomtest.Pass(2 * time.Second)
		if err := <-b.ended; err != nil {
			g.T.Error(err)
		}
	})
}

// Another instance has taken the job over; the run continues here, and its result is yet to be
// written.
func TestDrainWaitsForTheResultOfALostJob(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Multi(
			zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()),
			zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Heartbeat("job", "b"), nil),
		)
		roomtest.Pass(time.Second)
		a.Leave()
		roomtest.Pass(time.Minute)
		select {
		case err := <-a.ended:
			g.T.Fatalf("Run = %v before the result", err)
		default:
		}
		a.MustCommit(roomtest.Outcome(claimed, history.StateInterrupted))
		if err := <-a.ended; err != nil {
			g.T.Errorf("Run = %v", err)
		}
	})
}

// A job is not handed back while its run has no result.
func TestDrainWaitsForTheResult(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		a.Leave()
		roomtest.Pass(time.Minute)
		select {
		case err := <-a.ended:
			g.T.Fatalf("Run = %v before the result", err)
		default:
		}
		ended := a.MustCommit(roomtest.Outcome(claimed, history.StateInterrupted))
		if err := <-a.ended; err != nil {
			g.T.Errorf("Run = %v", err)
		}
		g.WantRecords(ended, "r1 interrupted")
		if data, _, _ := g.Get(g.Tree.Alive("job")); strings.Contains(string(data), "a-1") {
			g.T.Errorf("the owner record is %q, want none", data)
		}
	})
}

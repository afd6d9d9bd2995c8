package owner_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start starts an instance, and waits until it owns every slot that it can.
func start(g *roomtest.Group, cfg member.Config) *roomtest.Rooms {
	g.T.Helper()
	r := g.NewOwner(cfg)
	r.Start()
	roomtest.Pass(2 * roomtest.SyncPeriod)
	return r
}

func TestFreeSlotIsTaken(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		if told := roomtest.ToldA[owner.Gained](a.Loop); !slices.Equal(told, []owner.Gained{{Slot: "job"}}) {
			g.T.Errorf("told %v, want Gained once", told)
		}
		own := a.Owner.Owned("job")
		if own == nil || own.Lease.Err() != nil || a.Owner.Count() != 1 || a.Owner.Idle() {
			g.T.Fatalf("owned %+v, %d slots, idle %v", own, a.Owner.Count(), a.Owner.Idle())
		}
		if _, stat, _ := g.Get(g.Tree.Alive("job")); stat.Mzxid != own.Token {
			g.T.Errorf("token %d, want the record's mzxid, %d", own.Token, stat.Mzxid)
		}
		roomtest.Pass(time.Minute)
		if err := own.Lease.Err(); err != nil {
			g.T.Errorf("the lease is not renewed: %v", err)
		}
	})
}

// How a slot came to be owned is told of that take alone: after one whose answer was lost, nothing
// is known of it.
func TestOriginOfATakeWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		if own := a.Owner.Owned("job"); own == nil || own.Origin != owner.Free {
			g.T.Fatalf("owned %+v, want it taken as one that nobody owned", own)
		}
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Ops[0].Path == g.Tree.Alive("job") {
				return zkdev.CutAfter()
			}
			return zkdev.Pass()
		})
		g.Multi(zkconn.SetOp(g.Tree.Alive("job"), nil, zkconn.AnyVersion), // somebody takes it away manually
			zkconn.DeleteOp(g.Tree.Heartbeat("job", "a"), zkconn.AnyVersion))
		roomtest.Pass(2 * roomtest.SessionTimeout)
		if own := a.Owner.Owned("job"); own == nil || own.Origin != owner.Unsure {
			g.T.Errorf("owned %+v, want it owned again, and not known how", own)
		}
	})
}

// The cause says why a slot was lost; the lease ends before the loss is told.
func TestLossHasACause(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		lose func(g *roomtest.Group, a *roomtest.Rooms)
		want error
	}{
		"taken": {func(g *roomtest.Group, _ *roomtest.Rooms) {
			g.Set(g.Tree.Alive("job[1]"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode())
		}, leases.ErrLost},
		"canceled": {func(g *roomtest.Group, _ *roomtest.Rooms) { g.Multi(g.Cancel()...) }, owner.ErrCanceled},
		"retired": {func(g *roomtest.Group, _ *roomtest.Rooms) {
			spec := g.Spec()
			spec.Job.Shards = 1
			g.Set(g.Tree.Job("job"), spec.Encode())
		}, owner.ErrRetired},
		"handed over": {func(_ *roomtest.Group, a *roomtest.Rooms) { a.Do(a.Member.Leave) }, owner.ErrHandedOver},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.SubmitSharded(2)
				a := g.NewOwner(member.Config{ID: "a"})
				var own *owner.Ownership
				a.Add(roomtest.Room{Handle: func(n session.Notice) {
					if n, ok := n.(owner.Lost); ok && n.Slot == "job[1]" {
						if err := own.Lease.Err(); !errors.Is(err, test.want) || a.Owner.Owned(n.Slot) != nil {
							g.T.Errorf("lease %v, owned %v when the loss is told", err, a.Owner.Owned(n.Slot))
						}
					}
				}})
				a.Start()
				roomtest.Pass(3 * roomtest.SyncPeriod)
				if own = a.Owner.Owned("job[1]"); own == nil {
					g.T.Fatal("not owned")
				}
				a.Told()
				test.lose(g, a)
				roomtest.Pass(time.Second)
				var causes []error
				for _, lost := range roomtest.ToldA[owner.Lost](a.Loop) {
					if lost.Slot == "job[1]" {
						causes = append(causes, lost.Cause)
					}
				}
				if len(causes) != 1 || !errors.Is(causes[0], test.want) {
					g.T.Errorf("lost because of %v, want %v", causes, test.want)
				}
			})
		})
	}
}

// The index of an operation tells which check has refused a transaction.
func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	latch := member.Config{ID: "a", Latch: true, Instance: zkrec.Instance{Mode: zkrec.ModeLatch}}
	for what, test := range map[string]struct {
		change func(g *roomtest.Group) zkconn.Op
		cfg    member.Config
		want   error
	}{
		"nothing": {nil, member.Config{ID: "a"}, nil},
		"owner record": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.SetOp(g.Tree.Alive("job"), nil, zkconn.AnyVersion)
		}, member.Config{ID: "a"}, owner.ErrNotOwner},
		"heartbeat": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.DeleteOp(g.Tree.Heartbeat("job", "a"), zkconn.AnyVersion)
		}, member.Config{ID: "a"}, owner.ErrNotOwner},
		"spec": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.SetOp(g.Tree.Job("job"), []byte("@daily"), zkconn.AnyVersion)
		}, member.Config{ID: "a"}, ticks.ErrSpecChanged},
		"switch": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.SetOp(g.Tree.Register("job"), zkrec.Switch{Opened: 1}.Encode(), zkconn.AnyVersion)
		}, member.Config{ID: "a"}, ticks.ErrSpecChanged},
		"nothing, in latch mode": {nil, latch, nil},
		"leader": {func(g *roomtest.Group) zkconn.Op {
			nodes, _, err := g.Editor.Children(g.T.Context(), g.Tree.Leader())
			if err != nil || len(nodes) != 1 {
				g.T.Fatalf("the election has nodes %v, %v", nodes, err)
			}
			return zkconn.DeleteOp(g.Tree.Leader()+"/"+nodes[0], zkconn.AnyVersion)
		}, latch, owner.ErrNotLeader},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, test.cfg)
				own, version := a.Owner.Owned("job"), a.Catalog.JobOf("job").Version
				if own == nil {
					g.T.Fatal("not owned")
				}
				guard, err := a.Owner.GuardClaim("job", own.Token, version, false)
				if err != nil {
					g.T.Fatal(err)
				}
				a.Client.Partition() // it is not told
				if test.change != nil {
					g.Multi(test.change(g))
				}
				_, err = g.Editor.Multi(g.T.Context(), guard.Ops...)
				refusal := new(zkconn.MultiError)
				if errors.As(err, &refusal) != (test.want != nil) {
					g.T.Fatalf("refused with %v, want it to be %v", err, test.want)
				}
				if test.want != nil {
					if got := guard.Refused(refusal.Index, refusal.Err); !errors.Is(got, test.want) {
						g.T.Errorf("operation %d is refused because of %v, want %v", refusal.Index, got, test.want)
					}
				}
				for _, index := range []int{-1, len(guard.Ops)} {
					if got := guard.Refused(index, zkconn.ErrBadVersion); got != nil {
						g.T.Errorf("operation %d is not part of the guard, but refused because of %v", index, got)
					}
				}
			})
		})
	}
}

// A job's node that is gone is no other version of its spec.
func TestGuardOfADeletedJobSaysNothing(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		guard, err := a.Owner.GuardClaim("job", a.Owner.Owned("job").Token, ticks.Version{}, false)
		if err != nil {
			g.T.Fatal(err)
		}
		spec := len(guard.Ops) - 1
		if got := guard.Refused(spec, zkconn.ErrNoNode); got != nil {
			g.T.Errorf("refused because of %v, want nothing that is known", got)
		}
	})
}

func TestGuardIsGivenToTheOwnerAlone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		token := a.Owner.Owned("job").Token
		for slot, token := range map[string]int64{"job": token - 1, "another": token} {
			if _, err := a.Owner.Guard(slot, token); !errors.Is(err, owner.ErrNotOwner) {
				g.T.Errorf("Guard of %s = %v, want ErrNotOwner", slot, err)
			}
			if _, err := a.Owner.GuardClaim(slot, token, ticks.Version{}, false); !errors.Is(err, owner.ErrNotOwner) {
				g.T.Errorf("GuardClaim of %s = %v, want ErrNotOwner", slot, err)
			}
		}
		a.Client.Partition()
		roomtest.Pass(lease.Length(roomtest.SessionTimeout))
		if _, err := a.Owner.GuardClaim("job", token, ticks.Version{}, true); err != nil {
			g.T.Errorf("GuardClaim under a lapsed lease = %v: a claim renews it", err)
		}
		if _, err := a.Owner.Guard("job", token); err != nil {
			g.T.Errorf("Guard under a lapsed lease = %v: results need no lease", err)
		}
	})
}

func TestGuardInLatchModeNeedsATerm(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a", Latch: true, Instance: zkrec.Instance{Mode: zkrec.ModeLatch}})
		token := a.Owner.Owned("job").Token
		a.Client.Partition()
		roomtest.Pass(lease.Length(roomtest.SessionTimeout) + time.Second)
		if _, err := a.Owner.GuardClaim("job", token, ticks.Version{}, false); !errors.Is(err, owner.ErrNotLeader) {
			g.T.Errorf("GuardClaim without a term = %v, want ErrNotLeader", err)
		}
	})
}

// The protocol's actions are carried out in the order of its list, after the closure that made the
// step, and their consequences after them.
func TestActionsAreInOrder(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Submit("other")
		a := g.NewOwner(member.Config{ID: "a"})
		var ran []string
		a.Add(roomtest.Room{Handle: func(n session.Notice) {
			if n, ok := n.(owner.Lost); ok {
				ran = append(ran, fmt.Sprintf("%s, %d left", n.Slot, a.Owner.Count()))
				if n.Slot == "job" {
					a.Owner.Step(lease.SlotGone{Slot: "third"}) // a step within the turn
				}
			}
		}})
		a.Start()
		roomtest.Pass(3 * roomtest.SyncPeriod)
		g.Submit("third")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		if a.Owner.Count() != 3 {
			g.T.Fatalf("%d slots, want 3", a.Owner.Count())
		}
		a.Do(func() {
			a.Owner.Step(lease.SlotGone{Slot: "job"})
			a.Owner.Step(lease.SlotGone{Slot: "other"})
			if a.Owner.Owned("job") == nil || len(ran) > 0 {
				g.T.Error("an action is carried out within its step")
			}
		})
		// Both first actions come before the consequence of the first one.
		if want := []string{"job, 1 left", "other, 1 left", "third, 0 left"}; !slices.Equal(ran, want) {
			g.T.Errorf("lost %q, want %q", ran, want)
		}
	})
}

// An order that is read with the group is applied before the protocol plans with that reading: a
// slot that is free at the same moment is not taken.
func TestOrderIsHeededBeforeTheGroupIsPlanned(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a"})
		g.Submit("job")
		other := zkrec.Owner{SID: "b", Incarnation: "b-1"}
		g.Multi(
			zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()),
			zkconn.SetOp(g.Tree.Alive("job"), other.Encode(), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Heartbeat("job", "b"), nil),
		)
		roomtest.Pass(time.Second)
		a.Told()
		g.Multi(
			zkconn.SetOp(g.Tree.Alive("job"), nil, zkconn.AnyVersion), // the round begins with the slot
			zkconn.DeleteOp(g.Tree.Heartbeat("job", "b"), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Order("a"), zkrec.Order{}.Encode()),
		)
		roomtest.Pass(3 * roomtest.SyncPeriod)
		told := a.Told()
		if !slices.Contains(told, session.Notice(member.Draining{On: true})) || !a.Owner.Draining() {
			g.T.Errorf("told %v, want Draining", told)
		}
		for _, n := range told {
			if _, gained := n.(owner.Gained); gained {
				g.T.Errorf("a slot was taken by an instance that was ordered to take none")
			}
		}
	})
}

// An instance that finds its node deleted gives up its leases at once: the others take over.
func TestLossOfTheNodeEndsLeases(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		own := a.Owner.Owned("job")
		g.Remove(g.Tree.Instance("a"))
		roomtest.Pass(time.Millisecond)
		if err := own.Lease.Err(); !errors.Is(err, leases.ErrLost) {
			g.T.Errorf("lease %v, want it lost", err)
		}
	})
}

// Requests of an instance that takes slots which another one has just taken are all refused. That
// is not one request for each slot.
func TestShareThatAnotherHasTakenCostsFewRequests(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		const slots = 300
		name := func(i int) string { return fmt.Sprintf("job%d", i) }
		for i := range slots {
			g.Submit(name(i))
		}
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()))
		a := g.NewOwner(member.Config{ID: "a"})
		var requests atomic.Int32
		held := make(chan struct{})
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" {
				requests.Add(1)
			}
			return zkdev.Pass()
		})
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			take := func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && strings.HasSuffix(op.Path, "/alive") }
			if r.Client != "a" || !slices.ContainsFunc(r.Ops, take) {
				return zkdev.Pass()
			}
			close(held)
			return zkdev.Delay(time.Second) // and all that it sends meanwhile
		})
		a.Start()
		<-held
		var takes []zkconn.Op
		for i := range slots {
			takes = append(takes, zkconn.SetOp(g.Tree.Alive(name(i)), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), 0),
				zkconn.CreateOp(g.Tree.Heartbeat(name(i), "b"), nil))
		}
		g.Multi(takes...)
		roomtest.Pass(2 * time.Second)
		if n := requests.Load(); n == 0 || n > slots/15 { // 4 to 11: the readings of slots, and so the registrations, end in any order
			g.T.Errorf("%d transactions for %d slots, want %d at most", n, slots, slots/15)
		}
		if n := a.Owner.Count(); n != 0 {
			g.T.Errorf("it owns %d slots that were taken", n)
		}
	})
}

// A slot is not taken while a claim of a former ownership is under way: after the tree was emptied,
// that could find the next ownership with the same versions.
func TestTakeWaitsForAClaim(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		before := a.Owner.Owned("job").Token
		a.Do(func() { a.Owner.Pulse.Claiming("job") })
		g.Multi(zkconn.SetOp(g.Tree.Alive("job"), nil, zkconn.AnyVersion), zkconn.DeleteOp(g.Tree.Heartbeat("job", "a"), zkconn.AnyVersion))
		roomtest.Pass(5 * roomtest.SyncPeriod)
		if own := a.Owner.Owned("job"); own != nil {
			g.T.Errorf("owned %+v while a claim is under way", own)
		}
		a.Do(func() { a.Owner.Pulse.Claimed("job", session.Result{Err: zkconn.ErrBadVersion}) })
		roomtest.Pass(roomtest.SyncPeriod)
		if own := a.Owner.Owned("job"); own == nil || own.Token == before {
			g.T.Errorf("owned %+v, want it taken when the claim was answered", own)
		}
	})
}

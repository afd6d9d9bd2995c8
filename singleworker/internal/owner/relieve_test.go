package owner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The owner in these tests is b, a few nodes; a is told that the job's run at one past midnight is
// overdue.
const (
	grace = 250 * time.Millisecond
	due   = time.Minute // after midnight
)

// ownedByB starts a, after b, and passes the time until then, after midnight.
func ownedByB(g *roomtest.Group, then time.Duration) *roomtest.Rooms {
	g.T.Helper()
	g.Grace = grace
	g.Submit("job")
	node, record, heartbeat := b(g)
	g.Multi(node, record, heartbeat)
	a := start(g, member.Config{ID: "a"})
	aliveUntil(g, then)
	return a
}

// aliveUntil passes the time until then, after midnight, while b sends heartbeats.
func aliveUntil(g *roomtest.Group, then time.Duration) {
	g.T.Helper()
	for {
		left := time.Until(roomtest.Midnight.Add(then))
		if left <= roomtest.SyncPeriod {
			roomtest.Pass(left)
			return
		}
		roomtest.Pass(roomtest.SyncPeriod)
		g.Set(g.Tree.Heartbeat("job", "b"), nil)
	}
}

// overdue tells a that the job's run is overdue.
func overdue(a *roomtest.Rooms) { a.Do(func() { a.Owner.Step(lease.Overdue{Slot: "job"}) }) }

// proof is the node that shows that a tick node is the one that was read.
func proof(g *roomtest.Group) string { return g.Tree.Late("job", "a-1") }

// claimed is b's claim of a tick, and its result if it has one.
func claimed(tick time.Duration, state history.State) zkrec.Tick {
	at := roomtest.Midnight.Add(tick).UnixMilli()
	return zkrec.Tick{Watermark: at, Run: zkrec.Run{Tick: at, RunID: "r1", SID: "b", Token: 1, Attempt: 1, Started: at, State: state}}
}

func TestOwnerIsRelieved(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace)
		if a.Owner.Owned("job") != nil {
			g.T.Fatal("owned by a from the start")
		}
		overdue(a)
		wantOwner(g, a, "a")
		g.WantNodes(false, proof(g), g.Tree.Heartbeat("job", "b"))
		g.WantNodes(true, g.Tree.Heartbeat("job", "a"))
		own := a.Owner.Owned("job")
		if own == nil || own.From != "b" || own.Lease.Err() != nil {
			g.T.Fatalf("owned %+v, want it taken from b", own)
		}
		data, alive, _ := g.Get(g.Tree.Alive("job"))
		if own.Token != alive.Mzxid {
			g.T.Errorf("token %d, want the record's mzxid, %d", own.Token, alive.Mzxid)
		}
		if record, err := zkrec.ParseOwner(data); err != nil || record.Relieved != (zkrec.Member{SID: "b", Incarnation: "b-1"}) {
			g.T.Errorf("the record names %+v as relieved, %v; want b", record.Relieved, err)
		}
		guard, err := a.Owner.GuardClaim("job", own.Token, a.Catalog.JobOf("job").Version, false)
		if err != nil {
			g.T.Fatal(err)
		}
		g.Multi(guard.Ops...)
	})
}

// The records when a is told that a run is overdue decide, and not the news, which is wrong here.
func TestOwnerIsNotRelieved(t *testing.T) {
	t.Parallel()
	tick := func(g *roomtest.Group, r zkrec.Tick) { g.Set(g.Tree.Tick("job"), r.Encode()) }
	for what, test := range map[string]struct {
		at     time.Duration
		change func(g *roomtest.Group)
	}{
		"nothing is due":                        {due - time.Millisecond, nil},
		"the grace is not over":                 {due + grace - 5*time.Millisecond, nil},
		"the tick is claimed":                   {due + grace, func(g *roomtest.Group) { tick(g, claimed(due, history.StateOK)) }},
		"its run is open":                       {due + grace, func(g *roomtest.Group) { tick(g, claimed(due, history.StateRunning)) }},
		"a run before it is open":               {due + grace, func(g *roomtest.Group) { tick(g, claimed(0, history.StateRunning)) }},
		"the tick record is garbage":            {due + grace, func(g *roomtest.Group) { g.Set(g.Tree.Tick("job"), []byte("garbage")) }},
		"the tick record is of a newer version": {due + grace, func(g *roomtest.Group) { g.Set(g.Tree.Tick("job"), []byte(`{"schema":99}`)) }},
		"the owner's heartbeat is gone":         {due + grace, func(g *roomtest.Group) { g.Remove(g.Tree.Heartbeat("job", "b")) }},
		"there is another heartbeat":            {due + grace, func(g *roomtest.Group) { g.Create(g.Tree.Heartbeat("job", "x"), "") }},
		"the job is paused": {due + grace, func(g *roomtest.Group) {
			g.Pause(zkrec.Pause{Since: 1})
			roomtest.Pass(time.Millisecond)
		}},
		"b has become the owner once more": {due + grace, func(g *roomtest.Group) {
			_, record, heartbeat := b(g)
			g.Multi(zkconn.DeleteOp(g.Tree.Heartbeat("job", "b"), zkconn.AnyVersion), record, heartbeat)
			roomtest.Pass(time.Millisecond) // a sees that
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := ownedByB(g, test.at)
				if test.change != nil {
					test.change(g)
				}
				_, before, _ := g.Get(g.Tree.Alive("job"))
				overdue(a)
				wantOwner(g, a, "b")
				if _, after, _ := g.Get(g.Tree.Alive("job")); after.Mzxid != before.Mzxid {
					g.T.Error("the owner record was written")
				}
				g.WantNodes(false, proof(g))
			})
		})
	}
}

// A request that is refused may be made again: the slot is not stuck.
func TestOwnerIsRelievedLater(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace-5*time.Millisecond)
		for range 10 {
			overdue(a) // which takes a millisecond
		}
		wantOwner(g, a, "a")
		g.WantNodes(false, proof(g))
	})
}

// A new owner has as long as any other to claim the runs that it finds due.
func TestNewOwnerIsNotRelievedForAGrace(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace)
		_, record, heartbeat := b(g)
		g.Multi(zkconn.DeleteOp(g.Tree.Heartbeat("job", "b"), zkconn.AnyVersion), record, heartbeat)
		roomtest.Pass(grace - 5*time.Millisecond)
		overdue(a)
		wantOwner(g, a, "b")
		roomtest.Pass(10 * time.Millisecond)
		overdue(a)
		wantOwner(g, a, "a")
	})
}

// An owner whose clock is behind, as it publishes, is late by that: it has as much more time.
func TestOwnerWhoseClockIsBehindIsRelievedLater(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		const behind = 2 * time.Second
		a := ownedByB(g, due)
		g.Set(g.Tree.Instance("b"), zkrec.Instance{
			Incarnation: "b-1", State: zkrec.InstanceActive, ClockOffset: zkrec.Duration(-behind), ClockBound: zkrec.Duration(time.Millisecond),
		}.Encode())
		roomtest.Pass(grace + behind - 5*time.Millisecond)
		overdue(a)
		wantOwner(g, a, "b")
		roomtest.Pass(10 * time.Millisecond)
		overdue(a)
		wantOwner(g, a, "a")
	})
}

// An operator's request is dated by ZooKeeper's clock, and not by the operator's, which may be
// ahead: an owner that has not claimed it within a grace is relieved.
func TestReliefByTheClockOfZooKeeper(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due/2) // no tick is due for long
		request := zkrec.Request{Kind: zkrec.RequestRun, At: time.Now().Add(time.Hour)}
		g.Multi(zkconn.CreateOp(g.Tree.Request("job", "q1"), request.Encode()))
		roomtest.Pass(grace - 5*time.Millisecond)
		overdue(a)
		wantOwner(g, a, "b")
		roomtest.Pass(10 * time.Millisecond)
		overdue(a)
		wantOwner(g, a, "a")
	})
}

// The request arrives late, when the records that it rests on have changed: between its reading and
// its transaction.
func TestLateReliefIsRefused(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(g *roomtest.Group) []zkconn.Op{
		"the owner has claimed a run": func(g *roomtest.Group) []zkconn.Op {
			return []zkconn.Op{zkconn.SetOp(g.Tree.Tick("job"), claimed(due, history.StateRunning).Encode(), zkconn.AnyVersion)}
		},
		"the owner has sent a heartbeat": func(g *roomtest.Group) []zkconn.Op {
			return []zkconn.Op{zkconn.SetOp(g.Tree.Heartbeat("job", "b"), nil, zkconn.AnyVersion)}
		},
		"the owner record was written": func(g *roomtest.Group) []zkconn.Op {
			return []zkconn.Op{zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion)}
		},
		"the proof is gone": func(g *roomtest.Group) []zkconn.Op {
			return []zkconn.Op{zkconn.DeleteOp(proof(g), zkconn.AnyVersion)}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := ownedByB(g, due+grace)
				g.OnMulti(g.Tree.Alive("job"), zkdev.Delay(time.Second))
				overdue(a)
				g.WantNodes(true, proof(g))
				g.Multi(change(g)...)
				roomtest.Pass(2 * time.Second)
				wantOwner(g, a, "b")
				g.WantNodes(false, proof(g))
				g.WantNodes(true, g.Tree.Heartbeat("job", "b"))
			})
		})
	}
}

// again submits the job again, of which b becomes the owner. The same tick of it is due, and its
// nodes have versions that they had before.
func again(g *roomtest.Group) {
	g.T.Helper()
	g.Multi(g.Cancel()...)
	g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: roomtest.Midnight.UnixMilli()})
	g.Set(g.Tree.Tick("job"), zkrec.Tick{Watermark: roomtest.Midnight.UnixMilli()}.Encode())
	_, record, heartbeat := b(g)
	g.Multi(record, heartbeat)
}

// Versions start over when a job is submitted again: readings of the former one prove nothing.
func TestReliefOfAJobThatIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	for what, delayed := range map[string]func(g *roomtest.Group) string{
		"before the proof is made": proof,
		"before the take":          func(g *roomtest.Group) string { return g.Tree.Alive("job") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := ownedByB(g, due+grace)
				_, before, _ := g.Get(g.Tree.Alive("job"))
				_, beat, _ := g.Get(g.Tree.Heartbeat("job", "b"))
				g.OnMulti(delayed(g), zkdev.Delay(time.Second))
				overdue(a)
				again(g)
				for range beat.Version {
					g.Set(g.Tree.Heartbeat("job", "b"), nil)
				}
				if _, after, _ := g.Get(g.Tree.Alive("job")); after.Version != before.Version {
					g.T.Fatalf("version %d, want %d again", after.Version, before.Version)
				}
				roomtest.Pass(2 * time.Second)
				wantOwner(g, a, "b")
				g.WantNodes(false, proof(g))
				overdue(a)
				wantOwner(g, a, "a") // of this job, too, a run is overdue
			})
		})
	}
}

// A job that cannot run any more, or is gone, when the proof is made.
func TestReliefOfAJobThatCannotRun(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(g *roomtest.Group){
		"canceled":            func(g *roomtest.Group) { g.Multi(g.Cancel()...) },
		"its spec is garbage": func(g *roomtest.Group) { g.Set(g.Tree.Job("job"), []byte("garbage")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := ownedByB(g, due+grace)
				g.OnMulti(proof(g), zkdev.Delay(time.Second))
				overdue(a)
				change(g)
				roomtest.Pass(2 * time.Second)
				if a.Owner.Owned("job") != nil {
					g.T.Error("taken")
				}
				g.WantNodes(false, proof(g))
			})
		})
	}
}

// A run that is due by a schedule that somebody has replaced, and told nobody, is no reason to take
// the job.
func TestReliefByAnOldSchedule(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace)
		g.Multi(zkconn.SetOp(g.Tree.Job("job"), []byte("@yearly"), zkconn.AnyVersion))
		overdue(a)
		roomtest.Pass(time.Second)
		if a.Owner.Owned("job") != nil {
			g.T.Error("taken")
		}
		g.WantNodes(false, proof(g))
		if known := a.Catalog.JobOf("job").Spec.Job.Schedule; known != "@yearly" {
			g.T.Errorf("knows %q", known)
		}
	})
}

// While the proof is there, the tick node cannot be deleted.
func TestProofKeepsTheTickNode(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace)
		g.OnMulti(g.Tree.Alive("job"), zkdev.Delay(time.Second))
		overdue(a)
		_, err := g.Editor.Multi(g.T.Context(), zkconn.DeleteOp(g.Tree.Tick("job"), zkconn.AnyVersion))
		if !errors.Is(err, zkconn.ErrNotEmpty) {
			g.T.Errorf("the tick node is deleted: %v, want ErrNotEmpty", err)
		}
	})
}

// Whatever becomes of a's connection, a owns the job or does not. A proof that is left, because
// nothing says whether it was made, is in nobody's way. Once a has seen it, it is deleted with the
// take, or after it.
func TestReliefWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		suffix func(g *roomtest.Group) string
		action zkdev.Action
		want   string // the owner when the connection is back, without being told again
		left   bool   // the proof is there then
	}{
		"of the proof, before it is made": {proof, zkdev.CutBefore(), "b", false},
		"of the proof, when it is made":   {proof, zkdev.CutAfter(), "b", true},
		"of the take, before it is made":  {func(g *roomtest.Group) string { return g.Tree.Alive("job") }, zkdev.CutBefore(), "b", false},
		"of the take, when it is made":    {func(g *roomtest.Group) string { return g.Tree.Alive("job") }, zkdev.CutAfter(), "a", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := ownedByB(g, due+grace)
				g.OnMulti(test.suffix(g), test.action)
				overdue(a)
				roomtest.Pass(2 * time.Second)
				wantOwner(g, a, test.want)
				g.WantNodes(test.left, proof(g))
				overdue(a)
				roomtest.Pass(time.Second)
				overdue(a) // the proof of the lost request may have been too old
				wantOwner(g, a, "a")
				g.WantNodes(false, proof(g))
			})
		})
	}
}

// A proof that its instance cannot delete ends with its session.
func TestProofEndsWithItsSession(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := ownedByB(g, due+grace)
		g.OnMulti(proof(g), zkdev.DelayReply(time.Minute))
		overdue(a)
		g.WantNodes(true, proof(g))
		a.Client.Partition()
		aliveUntil(g, due+grace+3*roomtest.SessionTimeout)
		g.WantNodes(false, proof(g))
		wantOwner(g, a, "b")
	})
}

package owner_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// The requests of these tests arrive late, when the records that they rest on have changed.

// b is another instance: its node, its record at the job, and its heartbeat there.
func b(g *roomtest.Group) (node, record, heartbeat zkconn.Op) {
	own := zkrec.Owner{SID: "b", Incarnation: "b-1"}
	return zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()),
		zkconn.SetOp(g.Tree.Alive("job"), own.Encode(), zkconn.AnyVersion),
		zkconn.CreateOp(g.Tree.Heartbeat("job", "b"), nil)
}

// wantOwner expects that the record names an instance, and that a owns the job if it is a.
func wantOwner(g *roomtest.Group, a *roomtest.Rooms, sid string) {
	g.T.Helper()
	data, _, _ := g.Get(g.Tree.Alive("job"))
	if record, err := zkrec.ParseOwner(data); err != nil || record.SID != sid {
		g.T.Errorf("the record is %s, want it to name %s", data, sid)
	}
	if owned := a.Owner.Owned("job") != nil; owned != (sid == "a") {
		g.T.Errorf("owned by a: %v, and the record names %s", owned, sid)
	}
}

func TestLateTakeIsRefused(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.OnMulti(g.Tree.Alive("job"), zkdev.Delay(time.Second))
		a := g.NewOwner(member.Config{ID: "a"})
		a.Start()
		roomtest.Pass(500 * time.Millisecond)
		node, record, heartbeat := b(g)
		g.Multi(node, record, heartbeat)
		roomtest.Pass(2 * time.Second)
		wantOwner(g, a, "b")
	})
}

// The owner that seemed to be dead is back with a new session, and has sent a heartbeat.
func TestLateTakeoverIsRefused(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		node, record, heartbeat := b(g)
		g.Multi(record, heartbeat)
		g.OnMulti(g.Tree.Alive("job"), zkdev.Delay(time.Second))
		a := g.NewOwner(member.Config{ID: "a"})
		a.Start()
		roomtest.Pass(500 * time.Millisecond)
		g.Multi(node, zkconn.SetOp(g.Tree.Heartbeat("job", "b"), nil, 0))
		roomtest.Pass(2 * time.Second)
		wantOwner(g, a, "b")
	})
}

func TestLateReleaseIsRefused(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		g.OnMulti(g.Tree.Alive("job"), zkdev.Delay(time.Second))
		a.Do(a.Member.Leave)
		roomtest.Pass(500 * time.Millisecond)
		node, record, heartbeat := b(g)
		g.Multi(node, record, heartbeat)
		roomtest.Pass(2 * time.Second)
		wantOwner(g, a, "b")
	})
}

// A lease is counted from before the take was sent, however late the answer is.
func TestLeaseCountsFromTheTake(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.OnMulti(g.Tree.Alive("job"), zkdev.DelayReply(2*time.Second))
		g.OnMulti(g.Tree.Heartbeat("job", "a"), zkdev.Delay(time.Minute)) // nothing renews it
		a := g.NewOwner(member.Config{ID: "a"})
		a.Start()
		roomtest.Pass(lease.Length(roomtest.SessionTimeout) - 100*time.Millisecond)
		own := a.Owner.Owned("job")
		if own == nil || own.Lease.Err() != nil {
			g.T.Fatalf("not owned shortly before the end of the lease: %+v", own)
		}
		roomtest.Pass(200 * time.Millisecond)
		if err := own.Lease.Err(); !errors.Is(err, leases.ErrLost) {
			g.T.Errorf("shortly after the end of the lease: %v, want ErrLost", err)
		}
	})
}

// A heartbeat that someone else has written is refused: the job may be another one of the same
// name.
func TestHeartbeatOfAnotherIsNotOurs(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		a.Told()
		g.Set(g.Tree.Heartbeat("job", "a"), nil)
		roomtest.Pass(roomtest.SessionTimeout / 2)
		lost := roomtest.ToldA[owner.Lost](a.Loop)
		if !slices.ContainsFunc(lost, func(l owner.Lost) bool { return errors.Is(l.Cause, leases.ErrLost) }) {
			g.T.Errorf("told %v, want that the job was lost", lost)
		}
		roomtest.Pass(roomtest.SyncPeriod)
		wantOwner(g, a, "a")
	})
}

// A heartbeat beside the owner's that may not be read, or cannot be deleted, keeps nobody from the
// slot of an owner that sends none any more. Whether it sends none is not known if its own may not
// be read.
func TestStrayHeartbeatKeepsNobodyFromTheSlot(t *testing.T) {
	t.Parallel()
	deny := func(g *roomtest.Group, sid string) {
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.Tree.Heartbeat("job", sid) {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
	}
	for what, test := range map[string]struct {
		spoil func(g *roomtest.Group)
		want  string
	}{
		"denied":             {func(g *roomtest.Group) { deny(g, "stray") }, "a"},
		"with a node below":  {func(g *roomtest.Group) { g.Create(g.Tree.Heartbeat("job", "stray")+"/x", "") }, "a"},
		"the owner's denied": {func(g *roomtest.Group) { deny(g, "dead") }, "dead"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				g.Set(g.Tree.Alive("job"), zkrec.Owner{SID: "dead", Incarnation: "dead-1"}.Encode())
				for _, sid := range []string{"dead", "stray"} {
					g.Create(g.Tree.Heartbeat("job", sid), "0")
				}
				test.spoil(g)
				a := start(g, member.Config{ID: "a"})
				roomtest.Pass(3 * roomtest.SessionTimeout)
				wantOwner(g, a, test.want)
			})
		})
	}
}

// A group that may not be read is asked for again after a pause.
func TestGroupThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, member.Config{ID: "a"})
		asked := 0
		g.Server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "a" || r.Path != g.Tree.Instances() || asked > 1000 {
				return zkdev.Pass()
			}
			asked++
			return zkdev.Refuse(zkdev.NoAuth)
		})
		a.Do(func() { a.Owner.Step(lease.LookGroup{}) })
		roomtest.Pass(10 * roomtest.SyncPeriod)
		if asked < 5 || asked > 15 {
			g.T.Errorf("asked %d times in 10 sync periods, want about once in each", asked)
		}
	})
}

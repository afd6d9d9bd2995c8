package coord

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// killed creates the nodes of an instance that was just killed, in a session longer than the
// members'. A heal of its client lets the requests arrive that it has sent.
func (g *group) killed(sid string, record zkrec.Instance) *zkdev.Client {
	g.T.Helper()
	client := g.Server.Client("killed " + sid)
	cfg := g.Conn(client)
	cfg.SessionTimeout = 2 * roomtest.SessionTimeout
	conn, err := zkconn.Open(cfg, func(zkconn.Event) {})
	if err != nil {
		g.T.Fatal(err)
	}
	g.T.Cleanup(conn.Close)
	record.Incarnation, record.SessionTimeout = sid+"-0", zkrec.Duration(cfg.SessionTimeout)
	if _, err := conn.Multi(g.T.Context(), zkconn.CreateEphemeralOp(g.Tree.Instance(sid), record.Encode())); err != nil {
		g.T.Fatal(err)
	}
	client.Partition()
	return client
}

// wantRunning fails if Run has returned.
func (m *instance) wantRunning() {
	m.g.T.Helper()
	select {
	case err := <-m.ended:
		m.g.T.Fatalf("Run = %v", err)
	default:
	}
}

func TestDeadInstanceOfALongerSessionIsWaitedFor(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.killed("a", zkrec.Instance{})
		a := g.join("a")
		roomtest.Pass(2*roomtest.SessionTimeout + 2*time.Second)
		a.wantRunning()
		a.Ownership()
	})
}

// declares is an instance whose code declares a job.
func declares(name string) func(*Config) {
	return func(cfg *Config) {
		cfg.Member.Declarations = []member.Declaration{{Job: job.Job{Name: name, Schedule: "@daily"}}}
	}
}

// One that is refused leaves the jobs as they are: somebody may have canceled or changed the jobs
// that it declares.
func TestLiveInstanceWithTheSameIDIsRespected(t *testing.T) {
	inGroup(t, func(g *group) {
		other := zkrec.Instance{Incarnation: "a-0", SessionTimeout: zkrec.Duration(roomtest.SessionTimeout)}
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("a"), other.Encode()))
		g.configure = declares("job")
		start := time.Now()
		err := <-g.join("a").ended
		if took := time.Since(start); !errors.Is(err, member.ErrDuplicate) || took < roomtest.SessionTimeout*7/2 || took > 4*roomtest.SessionTimeout {
			g.T.Errorf("Run = %v after %v, want member.ErrDuplicate after 3.5 session timeouts", err, took)
		}
		g.WantNodes(false, g.Tree.Job("job"))
	})
}

func TestUnreadableInstanceRecordIsRewritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		roomtest.Pass(3 * roomtest.SyncPeriod) // it has published what it owns
		g.Set(g.Tree.Instance("a"), []byte("garbage"))
		roomtest.Pass(3 * roomtest.SyncPeriod)
		data, _, _ := g.Get(g.Tree.Instance("a"))
		if record, err := zkrec.ParseInstance(data); err != nil || record.Incarnation != "a-1" {
			g.T.Errorf("instance record %s (%v), want it of a-1", data, err)
		}
		a.Ownership()
	})
}

// The server grants 10 s of the requested 10 minutes: the instance syncs that often, and a stop
// while ZooKeeper is unreachable does not wait longer.
func TestGrantedSessionBoundsTheSyncPeriod(t *testing.T) {
	inGroup(t, func(g *group) {
		const granted = 10 * time.Second
		g.Session = 10 * time.Minute
		g.configure = func(cfg *Config) { cfg.SyncPeriod = 10 * time.Minute }
		g.Submit("job")
		g.Set(g.Tree.Tick("job"), []byte(`{"schema":99}`))
		a := g.join("a")
		roomtest.Pass(time.Minute)
		g.Set(g.Tree.Tick("job"), nil)
		start := time.Now()
		a.Ownership()
		if took := time.Since(start); took > granted+time.Second {
			g.T.Errorf("the next sync was after %v", took)
		}
		g.Server.Stop()
		start = time.Now()
		roomtest.Pass(3 * time.Second)
		a.Leave()
		err := <-a.ended
		// Close waits up to a second for an answer that cannot come, if the connection's goroutine has
		// ended before it asks.
		if took := time.Since(start); !errors.Is(err, ErrNotHandedBack) || took > granted+time.Second+100*time.Millisecond {
			g.T.Errorf("Run = %v after %v, want ErrNotHandedBack when the session is over", err, took)
		}
	})
}

// All instances were killed, to be started again in the other mode.
func TestDeadInstancesOfTheOtherModeAreWaitedFor(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.killed("a", zkrec.Instance{Mode: zkrec.ModeLatch})
		roomtest.Pass(time.Second)
		g.killed("b", zkrec.Instance{Mode: zkrec.ModeLatch})
		a := g.join("a")
		roomtest.Pass(2*roomtest.SessionTimeout + 2*time.Second)
		a.wantRunning()
		a.Ownership()
	})
}

// While it waits, it is not a member: the others would offer it their slots.
func TestLiveInstanceOfTheOtherModeIsRespected(t *testing.T) {
	inGroup(t, func(g *group) {
		other := zkrec.Instance{Incarnation: "b-0", SessionTimeout: zkrec.Duration(roomtest.SessionTimeout), Mode: zkrec.ModeLatch}
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("b"), other.Encode()))
		_, before, _ := g.Get(g.Tree.Instances())
		g.configure = declares("job")
		start := time.Now()
		a := g.join("a")
		roomtest.Pass(roomtest.SessionTimeout)
		names, _, err := g.Editor.Children(g.T.Context(), g.Tree.Instances())
		if err != nil || len(names) != 1 {
			g.T.Errorf("instances %q, %v, want b alone", names, err)
		}
		err = <-a.ended
		if took := time.Since(start); !errors.Is(err, member.ErrMode) || took < roomtest.SessionTimeout*7/2 || took > 4*roomtest.SessionTimeout {
			g.T.Errorf("Run = %v after %v, want member.ErrMode after 3.5 session timeouts", err, took)
		}
		if _, after, _ := g.Get(g.Tree.Instances()); after.Version != before.Version+1 {
			g.T.Errorf("its node was created %d times, want once", after.Version-before.Version)
		}
		g.WantNodes(false, g.Tree.Job("job"))
	})
}

// An instance in another mode that joins while a member's session is expired finds no members: the
// member waits until that is corrected.
func TestMemberOutlastsOneOfTheOtherMode(t *testing.T) {
	inGroup(t, func(g *group) {
		a := g.join("a")
		roomtest.Pass(time.Second)
		if err := g.Server.ExpireSession(a.loop.Conn.SessionID()); err != nil {
			g.T.Fatal(err)
		}
		g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-0", Mode: zkrec.ModeLatch}.Encode()))
		roomtest.Pass(5 * roomtest.SessionTimeout)
		a.wantRunning()
		g.Multi(zkconn.DeleteOp(g.Tree.Instance("b"), zkconn.AnyVersion))
		roomtest.Pass(5 * time.Second)
		if _, _, there := g.Get(g.Tree.Instance("a")); !there {
			g.T.Error("it has not joined again")
		}
	})
}

// A panic ends the loop. The others take over when the session is closed, so the leases end before
// that.
func TestLeasesEndBeforeTheSession(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		lease := a.Ownership().Lease
		slow := zkdev.Delay(roomtest.SessionTimeout / 8)
		g.Server.Control(zkdev.OpCloseSession, func(*zkdev.Request) zkdev.Action { return slow })
		a.loop.Post(func() { panic("on purpose") })
		synctest.Wait()
		if lease.Err() == nil {
			g.T.Error("the lease lasts while the session is being closed")
		}
		if err := <-a.ended; !errors.As(err, new(*task.PanicError)) {
			g.T.Errorf("Run = %v, want the panic", err)
		}
	})
}

// A server that joins the others again gives sessions that began without it all of their time
// again, and so does whatever else of a dead instance arrives late.
func TestDeadInstanceIsWaitedForWhoseSessionIsProlonged(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		client := g.killed("a", zkrec.Instance{})
		a := g.join("a")
		roomtest.Pass(2*roomtest.SessionTimeout - time.Second)
		client.Heal()
		roomtest.Pass(time.Millisecond)
		client.Partition()
		roomtest.Pass(2*roomtest.SessionTimeout - time.Second)
		if data, _, _ := g.Get(g.Tree.Instance("a")); !strings.Contains(string(data), "a-0") {
			g.T.Fatalf("the session was not prolonged: %s", data)
		}
		a.wantRunning()
		roomtest.Pass(3 * time.Second)
		a.wantRunning()
		a.Ownership()
	})
}

// Servers that restart, or that get another leader, do so, too.
func TestDeadInstanceIsWaitedForWhenServersRestart(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.killed("a", zkrec.Instance{})
		a := g.join("a")
		for range 3 { // each time shortly before the session would be over
			roomtest.Pass(2*roomtest.SessionTimeout - time.Second)
			if err := g.Server.Restart(zkdev.KeepSessions); err != nil {
				g.T.Fatal(err)
			}
		}
		roomtest.Pass(2*roomtest.SessionTimeout + 2*time.Second)
		a.wantRunning()
		a.Ownership()
	})
}

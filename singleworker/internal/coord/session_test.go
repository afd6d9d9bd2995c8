package coord

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// killed creates the nodes of an instance that was just killed, in a session longer than the members'.
func (g *group) killed(sid string, record zkrec.Instance) {
	g.t.Helper()
	client := g.server.Client("killed " + sid)
	cfg := g.conn(client)
	cfg.SessionTimeout = 2 * sessionTimeout
	conn, err := zkconn.Open(cfg, func(zkconn.Event) {})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(conn.Close)
	record.Incarnation, record.SessionTimeout = sid+"-0", zkrec.Duration(cfg.SessionTimeout)
	if _, err := conn.Multi(g.t.Context(), zkconn.CreateEphemeralOp(g.tree.Instance(sid), record.Encode())); err != nil {
		g.t.Fatal(err)
	}
	client.Partition()
}

// wantRunning fails if Run has returned.
func (m *instance) wantRunning() {
	m.g.t.Helper()
	select {
	case err := <-m.ended:
		m.g.t.Fatalf("Run = %v", err)
	default:
	}
}

func TestDeadInstanceOfALongerSessionIsWaitedFor(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.killed("a", zkrec.Instance{})
		a := g.join("a")
		pass(2*sessionTimeout + 2*time.Second)
		a.wantRunning()
		a.ownership()
	})
}

func TestLiveInstanceWithTheSameIDIsRespected(t *testing.T) {
	inGroup(t, func(g *group) {
		other := zkrec.Instance{Incarnation: "a-0", SessionTimeout: zkrec.Duration(sessionTimeout)}
		g.multi(zkconn.CreateEphemeralOp(g.tree.Instance("a"), other.Encode()))
		start := time.Now()
		err := <-g.join("a").ended
		if took := time.Since(start); !errors.Is(err, member.ErrDuplicate) || took < sessionTimeout*3/2 || took > 2*sessionTimeout {
			g.t.Errorf("Run = %v after %v, want member.ErrDuplicate after 1.5 session timeouts", err, took)
		}
	})
}

// While ZooKeeper is unreachable, an instance logs why, once per session timeout.
func TestUnreachableZooKeeperIsLogged(t *testing.T) {
	inGroup(t, func(g *group) {
		complaints := func(m *instance) int { return strings.Count(m.log.String(), "ZooKeeper cannot be reached") }
		g.submit("job")
		a := g.join("a")
		a.ownership()
		g.server.Stop()
		b := g.join("b")
		pass(30 * time.Second)
		for _, m := range []*instance{a, b} {
			if n := complaints(m); n == 0 || n > int(30*time.Second/sessionTimeout) {
				g.t.Errorf("%d messages in 30 s, want one per session timeout:\n%s", n, m.log)
			}
			if text := m.log.String(); !strings.Contains(text, zkdev.ErrStopped.Error()) {
				g.t.Errorf("log %q, want it to say why", text)
			}
		}
		if err := g.server.Restart(zkdev.DropSessions); err != nil {
			g.t.Fatal(err)
		}
		pass(10 * time.Second)
		before := complaints(a) + complaints(b)
		pass(30 * time.Second)
		if after := complaints(a) + complaints(b); after != before {
			g.t.Errorf("%d messages while ZooKeeper is reachable", after-before)
		}
	})
}

func TestUnreadableInstanceRecordIsRewritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		a.ownership()
		pass(3 * syncPeriod) // it has published what it owns
		g.set(g.tree.Instance("a"), []byte("garbage"))
		pass(3 * syncPeriod)
		data, _, _ := g.get(g.tree.Instance("a"))
		if record, err := zkrec.ParseInstance(data); err != nil || record.Incarnation != "a-1" {
			g.t.Errorf("instance record %s (%v), want it of a-1", data, err)
		}
		a.ownership()
	})
}

// The server grants 10 s of the requested 10 minutes: what the instance does once per sync period happens
// that often, and a stop while ZooKeeper is unreachable does not wait longer.
func TestGrantedSessionBoundsTheSyncPeriod(t *testing.T) {
	inGroup(t, func(g *group) {
		const granted = 10 * time.Second
		g.configure = func(cfg *Config) { cfg.Conn.SessionTimeout, cfg.SyncPeriod = 10*time.Minute, 10*time.Minute }
		g.submit("job")
		g.set(g.tree.Tick("job"), []byte(`{"schema":99}`))
		a := g.join("a")
		pass(time.Minute)
		g.set(g.tree.Tick("job"), nil)
		start := time.Now()
		a.ownership()
		if took := time.Since(start); took > granted+time.Second {
			g.t.Errorf("the next sync was after %v", took)
		}
		g.server.Stop()
		start = time.Now()
		pass(time.Second)
		a.Leave()
		err := <-a.ended
		if took := time.Since(start); !errors.Is(err, ErrNotHandedBack) || took > granted+100*time.Millisecond {
			g.t.Errorf("Run = %v after %v, want ErrNotHandedBack when the session is over", err, took)
		}
	})
}

// All instances were killed, to be started again in the other mode.
func TestDeadInstancesOfTheOtherModeAreWaitedFor(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.killed("a", zkrec.Instance{Mode: zkrec.ModeLatch})
		pass(time.Second)
		g.killed("b", zkrec.Instance{Mode: zkrec.ModeLatch})
		a := g.join("a")
		pass(2*sessionTimeout + 2*time.Second)
		a.wantRunning()
		a.ownership()
	})
}

// While it waits, it is not a member: the others would offer it what they own.
func TestLiveInstanceOfTheOtherModeIsRespected(t *testing.T) {
	inGroup(t, func(g *group) {
		other := zkrec.Instance{Incarnation: "b-0", SessionTimeout: zkrec.Duration(sessionTimeout), Mode: zkrec.ModeLatch}
		g.multi(zkconn.CreateEphemeralOp(g.tree.Instance("b"), other.Encode()))
		_, before, _ := g.get(g.tree.Instances())
		start := time.Now()
		a := g.join("a")
		pass(sessionTimeout)
		names, _, err := g.editor.Children(g.t.Context(), g.tree.Instances())
		if err != nil || len(names) != 1 {
			g.t.Errorf("instances %q, %v, want b alone", names, err)
		}
		err = <-a.ended
		if took := time.Since(start); !errors.Is(err, member.ErrMode) || took < sessionTimeout*3/2 || took > 2*sessionTimeout {
			g.t.Errorf("Run = %v after %v, want member.ErrMode after 1.5 session timeouts", err, took)
		}
		if _, after, _ := g.get(g.tree.Instances()); after.Version != before.Version+1 {
			g.t.Errorf("its node was created %d times, want once", after.Version-before.Version)
		}
	})
}

// An instance in another mode that joins while a member's session is expired finds no members: the member waits
// until that is corrected.
func TestMemberOutlastsOneOfTheOtherMode(t *testing.T) {
	inGroup(t, func(g *group) {
		a := g.join("a")
		pass(time.Second)
		if err := g.server.ExpireSession(a.loop.Conn.SessionID()); err != nil {
			g.t.Fatal(err)
		}
		g.multi(zkconn.CreateEphemeralOp(g.tree.Instance("b"), zkrec.Instance{Incarnation: "b-0", Mode: zkrec.ModeLatch}.Encode()))
		pass(5 * sessionTimeout)
		a.wantRunning()
		g.multi(zkconn.DeleteOp(g.tree.Instance("b"), zkconn.AnyVersion))
		pass(5 * time.Second)
		if _, _, there := g.get(g.tree.Instance("a")); !there {
			g.t.Error("it has not joined again")
		}
	})
}

package coord

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

const (
	tidied    = (member.TidyAfter + 2) * roomtest.SessionTimeout // for the first in rank, with the time until it notices
	notTidied = (member.TidyAfter - 1) * roomtest.SessionTimeout
)

// dead creates the nodes that an instance leaves if it is killed while it owns a job and has an
// order to drain.
func (g *group) dead(sid, job string) (left []string) {
	g.T.Helper()
	if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Orders()); err != nil {
		g.T.Fatal(err)
	}
	g.Multi(
		zkconn.CreateOp(g.Tree.Registration(job, sid), nil),
		zkconn.SetOp(g.Tree.Alive(job), zkrec.Owner{SID: sid, Incarnation: sid + "-1"}.Encode(), zkconn.AnyVersion),
		zkconn.CreateOp(g.Tree.Heartbeat(job, sid), nil),
		zkconn.CreateOp(g.Tree.Order(sid), zkrec.Order{Incarnation: sid + "-1"}.Encode()),
	)
	return []string{g.Tree.Registration(job, sid), g.Tree.Heartbeat(job, sid), g.Tree.Order(sid)}
}

func TestNodesOfDeadInstancesAreRemoved(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.Submit(roomtest.Foreign) // which no other instance can run
		left := g.dead("dead", roomtest.Foreign)
		g.Create(g.Tree.Order("absent"), "") // disabled, whether or not it ever runs
		g.Create(g.Tree.Heartbeat(roomtest.Foreign, "stray"), "")
		a := g.join("a")
		g.join("b")
		roomtest.Pass(notTidied)
		g.WantNodes(true, left...)
		roomtest.Pass(tidied - notTidied)
		g.WantNodes(false, left...)
		g.WantNodes(true, g.Tree.Order("absent"), g.Tree.Heartbeat(roomtest.Foreign, "stray"))
		for _, sid := range []string{"a", "b"} {
			g.WantNodes(true, g.Tree.Registration("job", sid), g.Tree.Instance(sid))
		}
		if data, _, _ := g.Get(g.Tree.Alive(roomtest.Foreign)); len(data) > 0 {
			g.T.Errorf("the owner record is %s, want none", data)
		}
		if gone := a.member.Cleanup.Gone(); len(gone) > 0 {
			g.T.Errorf("%v still count as gone", gone)
		}
	})
}

// An instance that comes back in time finds everything, even after a long time without a session.
func TestInstanceThatComesBackInTimeLosesNothing(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.join("a")
		b := g.join("b")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		for range 3 {
			b.client.Partition()
			roomtest.Pass(notTidied)
			g.WantNodes(false, g.Tree.Instance("b"))
			g.WantNodes(true, g.Tree.Registration("job", "b"))
			b.client.Heal()
			roomtest.Pass(2 * roomtest.SessionTimeout)
			g.WantNodes(true, g.Tree.Instance("b"), g.Tree.Registration("job", "b"))
		}
	})
}

// An instance that comes back too late registers again, and so does a live one whose registration
// was removed by an instance that took it for dead, or manually.
func TestRegistrationThatIsRemovedComesBack(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		g.join("a")
		b := g.join("b")
		b.client.Partition()
		roomtest.Pass(tidied + 2*roomtest.SessionTimeout)
		g.WantNodes(false, g.Tree.Registration("job", "b"))
		b.client.Heal()
		roomtest.Pass(2 * roomtest.SessionTimeout)
		g.WantNodes(true, g.Tree.Instance("b"), g.Tree.Registration("job", "b"))
		g.Remove(g.Tree.Registration("job", "b"))
		roomtest.Pass(moment)
		g.WantNodes(true, g.Tree.Registration("job", "b"))
	})
}

// Time without a connection does not count toward another instance's absence.
func TestTimeWithoutAConnectionDoesNotCount(t *testing.T) {
	inGroup(t, func(g *group) {
		g.Submit("job")
		a := g.join("a")
		a.Ownership()
		g.Create(g.Tree.Registration("job", "dead"), "")
		roomtest.Pass(notTidied)
		a.client.Partition()
		roomtest.Pass(2 * roomtest.SessionTimeout)
		a.client.Heal()
		roomtest.Pass(notTidied)
		g.WantNodes(true, g.Tree.Registration("job", "dead"))
		roomtest.Pass(tidied - notTidied)
		g.WantNodes(false, g.Tree.Registration("job", "dead"))
	})
}

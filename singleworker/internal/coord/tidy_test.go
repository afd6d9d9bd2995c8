package coord

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

const (
	tidied    = (member.TidyAfter + 2) * sessionTimeout // for the first in rank, with the time until it notices
	notTidied = (member.TidyAfter - 1) * sessionTimeout
)

// wantNodes expects nodes to exist, or not.
func (g *group) wantNodes(want bool, paths ...string) {
	g.t.Helper()
	for _, path := range paths {
		if _, _, found := g.get(path); found != want {
			g.t.Errorf("%s exists: %v, want %v", path, found, want)
		}
	}
}

// dead creates the nodes that an instance leaves if it is killed while it owns a job and has an order to drain.
func (g *group) dead(sid, job string) (left []string) {
	g.t.Helper()
	if err := g.editor.EnsureRoot(g.t.Context(), g.tree.Orders()); err != nil {
		g.t.Fatal(err)
	}
	g.multi(
		zkconn.CreateOp(g.tree.Registration(job, sid), nil),
		zkconn.SetOp(g.tree.Alive(job), zkrec.Owner{SID: sid, Incarnation: sid + "-1"}.Encode(), zkconn.AnyVersion),
		zkconn.CreateOp(g.tree.Heartbeat(job, sid), nil),
		zkconn.CreateOp(g.tree.Order(sid), zkrec.Order{Incarnation: sid + "-1"}.Encode()),
	)
	return []string{g.tree.Registration(job, sid), g.tree.Heartbeat(job, sid), g.tree.Order(sid)}
}

func TestNodesOfDeadInstancesAreRemoved(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.submit(foreign) // which no other instance can run
		left := g.dead("dead", foreign)
		g.create(g.tree.Order("absent"), "") // disabled, whether or not it ever runs
		g.create(g.tree.Heartbeat(foreign, "stray"), "")
		a := g.join("a")
		g.join("b")
		pass(notTidied)
		g.wantNodes(true, left...)
		pass(tidied - notTidied)
		g.wantNodes(false, left...)
		g.wantNodes(true, g.tree.Order("absent"), g.tree.Heartbeat(foreign, "stray"))
		for _, sid := range []string{"a", "b"} {
			g.wantNodes(true, g.tree.Registration("job", sid), g.tree.Instance(sid))
		}
		if data, _, _ := g.get(g.tree.Alive(foreign)); len(data) > 0 {
			g.t.Errorf("the owner record is %s, want none", data)
		}
		if gone := a.member.Cleanup.Gone(); len(gone) > 0 {
			g.t.Errorf("%v still count as gone", gone)
		}
	})
}

// An instance that comes back in time finds everything, even after a long time without a session.
func TestInstanceThatComesBackInTimeLosesNothing(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.join("a")
		b := g.join("b")
		pass(2 * syncPeriod)
		for range 3 {
			b.client.Partition()
			pass(notTidied)
			g.wantNodes(false, g.tree.Instance("b"))
			g.wantNodes(true, g.tree.Registration("job", "b"))
			b.client.Heal()
			pass(2 * sessionTimeout)
			g.wantNodes(true, g.tree.Instance("b"), g.tree.Registration("job", "b"))
		}
	})
}

// An instance that comes back too late registers again, and so does a live one whose registration was
// removed by an instance that took it for dead, or manually.
func TestRegistrationThatIsRemovedComesBack(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.join("a")
		b := g.join("b")
		b.client.Partition()
		pass(tidied + 2*sessionTimeout)
		g.wantNodes(false, g.tree.Registration("job", "b"))
		b.client.Heal()
		pass(2 * sessionTimeout)
		g.wantNodes(true, g.tree.Instance("b"), g.tree.Registration("job", "b"))
		g.remove(g.tree.Registration("job", "b"))
		pass(moment)
		g.wantNodes(true, g.tree.Registration("job", "b"))
	})
}

// Time without a connection does not count toward another instance's absence.
func TestTimeWithoutAConnectionDoesNotCount(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		a.ownership()
		g.create(g.tree.Registration("job", "dead"), "")
		pass(notTidied)
		a.client.Partition()
		pass(2 * sessionTimeout)
		a.client.Heal()
		pass(notTidied)
		g.wantNodes(true, g.tree.Registration("job", "dead"))
		pass(tidied - notTidied)
		g.wantNodes(false, g.tree.Registration("job", "dead"))
	})
}

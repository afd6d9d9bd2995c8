package member_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A process that hangs writes late. By then its place may be taken by a later start with its id,
// whose node has the same path, and the same version.
func TestSuccessorsNodeIsLeftAlone(t *testing.T) {
	t.Parallel()
	const late = time.Second
	for what, write := range map[string]func(m *member.Member){
		"published": (*member.Member).Leave,
		"departing": func(m *member.Member) { m.Depart(nil) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a"})
				g.OnMulti("_instances/a", zkdev.Delay(late))
				a.Do(func() { write(a.Member) })
				path := g.Tree.Instance("a")
				g.Multi(zkconn.DeleteOp(path, zkconn.AnyVersion))
				g.Multi(zkconn.SetOp(g.Tree.Instances(), nil, zkconn.AnyVersion),
					zkconn.CreateEphemeralOp(path, zkrec.Instance{Incarnation: "a-2"}.Encode()))
				roomtest.Pass(2 * late)
				if got := record(g, "a"); got.Incarnation != "a-2" || got.State != "" {
					g.T.Errorf("the successor's record became %+v", got)
				}
			})
		})
	}
}

// An instance that joins at the same time does not keep another from publishing or departing.
func TestOwnNodeIsReadAgainAfterAJoin(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a"})
		late := zkdev.Delay(time.Second)
		g.OnMulti("_instances/a", late)
		a.Do(a.Member.Leave)
		g.Set(g.Tree.Instances(), nil)
		roomtest.Pass(2 * time.Second)
		if got := record(g, "a"); got.State != zkrec.InstanceStopping {
			g.T.Errorf("published %+v, want that it stops", got)
		}
		g.OnMulti("_instances/a", late)
		a.Do(func() { a.Member.Depart(nil) })
		g.Set(g.Tree.Instances(), nil)
		roomtest.Pass(2 * time.Second)
		if _, done := a.Member.Departure(); !done {
			g.T.Error("not departed")
		}
		g.WantNodes(false, g.Tree.Instance("a"))
	})
}

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

// A cleanup that arrives late leaves alone the nodes that have come in between: an owner, or a
// heartbeat of the dead instance, which is back.
func TestLateCleanupIsRefused(t *testing.T) {
	t.Parallel()
	dead := zkrec.Owner{SID: "dead", Incarnation: "dead-1"}
	for what, test := range map[string]struct {
		change func(g *roomtest.Group) zkconn.Op
		owner  string
	}{
		"another owner": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion)
		}, "b"},
		"a heartbeat": {func(g *roomtest.Group) zkconn.Op {
			return zkconn.SetOp(g.Tree.Heartbeat("job", "dead"), nil, zkconn.AnyVersion)
		}, "dead"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, member.Config{ID: "a"})
				follow(a)
				g.Multi(
					zkconn.SetOp(g.Tree.Alive("job"), dead.Encode(), zkconn.AnyVersion),
					zkconn.CreateOp(g.Tree.Heartbeat("job", "dead"), nil),
				)
				g.OnMulti(g.Tree.Heartbeat("job", "dead"), zkdev.Delay(time.Second))
				a.Do(func() { a.Member.Cleanup.Tidy([]string{"dead"}, []member.Traced{{Job: "job", Slots: []string{"job"}}}) })
				roomtest.Pass(500 * time.Millisecond)
				g.Multi(test.change(g))
				roomtest.Pass(time.Second)
				data, _, _ := g.Get(g.Tree.Alive("job"))
				if record, err := zkrec.ParseOwner(data); err != nil || record.SID != test.owner {
					g.T.Errorf("the record is %s, %v; want it to name %s", data, err, test.owner)
				}
				g.WantNodes(true, g.Tree.Heartbeat("job", "dead"))
			})
		})
	}
}

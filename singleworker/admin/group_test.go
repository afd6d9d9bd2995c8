package admin

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Group agrees with List, Instances and Orders, and reads the signs of life beside what List reads.
func TestGroup(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.wantGroup() // of nothing
		w.sharded(3)
		w.instance("app-2", "job")
		w.adopt("app-2", "job[1]")
		for k := range 300 {
			name := fmt.Sprint("whole-", k)
			w.submit(job.Job{Name: name, Schedule: "@hourly"})
			w.adopt([]string{"app-1", "app-2", "gone"}[k%3], name)
		}
		w.submit(job.Job{Name: "every", Schedule: "@hourly", Everywhere: true})
		w.multi(newNodes(w.c.tree.NewShard(zkrec.InstanceSlot("every", "app-1"), 0))...)
		w.adopt("app-1", zkrec.InstanceSlot("every", "app-1"))
		w.multi(
			zkcreate(w.c.tree.Instance("ghost"), zkrec.Instance{Incarnation: "g"}.Encode()),
			zkcreate(w.c.tree.Life("app-1-1"), zkrec.EncodeBeat(time.Now().Add(-time.Hour))),
		)
		for _, sid := range []string{"app-2", "app-9"} {
			_, err := w.c.Disable(w.Context(), sid, OrderOptions{By: "ann", Reason: "disk"})
			w.must(err)
		}
		_, err := w.c.DisableAt(w.Context(), Target{InstanceID: "app-1", Job: "job"}, OrderOptions{By: "bob"})
		w.must(err)
		time.Sleep(10 * time.Minute)
		g := w.wantGroup()
		if len(g.Jobs) != 302 || len(g.Instances) != 3 || len(g.Orders) != 3 {
			t.Errorf("%d jobs, %d instances, %d orders", len(g.Jobs), len(g.Instances), len(g.Orders))
		}
		if one, two := g.Instances[0], g.Instances[1]; one.Owned != 102 || one.ClockOffset == nil || one.Silent == 0 || two.Owned != 101 {
			t.Errorf("instances %+v", g.Instances)
		}
		together := w.requestsOf(func() { _, err = w.c.Group(w.Context()) })
		w.must(err)
		list := w.requestsOf(func() { _, err = w.c.List(w.Context()) })
		w.must(err)
		if together != list+1 {
			t.Errorf("%d requests for the group, %d for its jobs", together, list)
		}
	})
}

// wantGroup reads the group at once and in three parts, and expects the same.
func (w *world) wantGroup() Group {
	w.Helper()
	g, err := w.c.Group(w.Context())
	w.must(err)
	var parts Group
	parts.Jobs, err = w.c.List(w.Context())
	w.must(err)
	parts.Instances, err = w.c.Instances(w.Context())
	w.must(err)
	parts.Orders, err = w.c.Orders(w.Context())
	w.must(err)
	if !reflect.DeepEqual(g, parts) {
		w.Errorf("at once\n%+v, in parts\n%+v", g, parts)
	}
	return g
}

// A group is read without the orders that may not be, and not without its instances or its jobs.
func TestGroupThatIsDenied(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		_, err := w.c.Disable(w.Context(), "app-1", OrderOptions{By: "ann"})
		w.must(err)
		denied := ""
		for _, op := range []zkdev.Op{zkdev.OpGetChildren, zkdev.OpGetChildren2} {
			w.server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
				if r.Path == denied {
					return zkdev.Refuse(zkdev.NoAuth)
				}
				return zkdev.Pass()
			})
		}
		for path, want := range map[string]error{w.c.tree.Orders(): nil, w.c.tree.Instances(): zkconn.ErrDenied, w.c.tree.Root(): zkconn.ErrDenied} {
			denied = path
			g, err := w.c.Group(w.Context())
			if !errors.Is(err, want) || want == nil && (len(g.Jobs) != 1 || g.Instances[0].Owned != 1 || len(g.Orders) > 0) {
				t.Errorf("%s: %v, %+v", path, err, g)
			}
		}
	})
}

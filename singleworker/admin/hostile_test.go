package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// hide lets nobody read some nodes.
func (w *world) hide(paths ...string) {
	w.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
		if slices.Contains(paths, r.Path) {
			return zkdev.Refuse(zkdev.NoAuth)
		}
		return zkdev.Pass()
	})
}

// A node that may not be read, or whose name no job can have, is a row of the list that says so.
func TestListWithNodesOfOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "good", Schedule: "@hourly"})
		w.submit(job.Job{Name: "hidden", Schedule: "@hourly"})
		w.submit(job.Job{Name: "ticks", Schedule: "@hourly", Shards: 2})
		for shard := range 2 {
			for _, node := range w.c.tree.NewShard(zkrec.ShardSlot("ticks", shard), 1) {
				w.multi(zkcreate(node.Path, node.Data))
			}
		}
		w.multi(zkcreate(w.c.tree.Job(" lead"), []byte("@hourly")), zkcreate(w.c.tree.Job("lead[3]"), nil),
			zkcreate(w.c.tree.Job("a\u202eb"), []byte("@hourly")))
		w.hide(w.c.tree.Job("hidden"), w.c.tree.Tick("ticks[1]"))
		list, err := w.c.List(w.Context())
		w.must(err)
		var got []string
		for _, s := range list {
			got = append(got, fmt.Sprintf("%q %s %s", s.Name, s.State, s.Reason))
		}
		want := []string{
			`" lead" invalid nobody runs it: its name begins or ends with a blank; delete /billing/ lead`,
			`"a\u202eb" invalid nobody runs it: its name contains '\u202e', want printable characters without '/'; delete /billing/` + "a\u202eb",
			`"good" owned `,
			`"hidden" invalid /billing/hidden cannot be read: access denied by the node's ACL`,
			`"ticks" invalid /billing/ticks/shards/1/tick cannot be read: access denied by the node's ACL`,
		}
		if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") {
			t.Errorf("listed\n%s\nwant\n%s", text, strings.Join(want, "\n"))
		}
	})
}

// An instance, or an order, that may not be read hides no other, and what is no instance is listed
// as such.
func TestInstancesWithNodesOfOthers(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Orders()))
		hidden := zkrec.Instance{Incarnation: "h", State: InstanceActive}.Encode()
		w.multi(
			zkconn.CreateEphemeralOp(w.c.tree.Instance("hidden"), hidden),
			zkcreate(w.c.tree.Instance("ghost"), hidden),
			zkcreate(w.c.tree.Instance("hidden-ghost"), hidden),
			zkconn.CreateEphemeralOp(w.c.tree.Instance("ordered"), hidden),
			zkcreate(w.c.tree.Order("ordered"), zkrec.Order{Incarnation: "other"}.Encode()),
		)
		w.hide(w.c.tree.Instance("hidden"), w.c.tree.Instance("hidden-ghost"), w.c.tree.Order("ordered"))
		all, err := w.c.Instances(w.Context())
		w.must(err)
		var got []string
		for _, i := range all {
			text := fmt.Sprintf("%s %s %s", i.ID, i.State, i.Reason)
			if i.Order != nil {
				text += "disabled: " + i.Order.Reason
			}
			got = append(got, text)
		}
		const none = " is held by no session, so it is not an instance's: delete it"
		want := []string{
			"app-1  ",
			"ghost none /billing/_instances/ghost" + none,
			"hidden unreadable /billing/_instances/hidden cannot be read: access denied by the node's ACL",
			"hidden-ghost none /billing/_instances/hidden-ghost" + none,
			"ordered draining disabled: /billing/_disabled/ordered cannot be read: access denied by the node's ACL",
		}
		if text := strings.Join(got, "\n"); text != strings.Join(want, "\n") {
			t.Errorf("listed\n%s\nwant\n%s", text, strings.Join(want, "\n"))
		}
		orders, err := w.c.Orders(w.Context())
		w.must(err)
		if len(orders) != 1 || orders[0].Incarnation != "" {
			t.Errorf("orders %+v, want one that binds every start", orders)
		}
	})
}

// A node that no session holds owns nothing, runs nothing and cannot be told to drain.
func TestNodeWithoutASessionIsNoInstance(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Instances()))
		w.multi(zkcreate(w.c.tree.Instance("ghost"), zkrec.Instance{Incarnation: "ghost-1", State: InstanceActive}.Encode()),
			zkcreate(w.c.tree.Registration("job", "ghost"), nil))
		w.adopt("ghost", "job")
		if s := w.get("job"); s.State != StateUnowned || !strings.Contains(s.Reason.String(), "ghost is gone") {
			t.Errorf("%s: %s; want that its owner is gone", s.State, s.Reason)
		}
		if _, err := w.c.Drain(w.Context(), "ghost", OrderOptions{}); err == nil {
			t.Error("drained")
		}
		if _, runs, err := w.c.AwaitDrained(w.Context(), "ghost"); runs || err != nil {
			t.Errorf("AwaitDrained: runs %v, %v", runs, err)
		}
	})
}

// Requests that someone wrote manually, by the thousand, are counted without being read one by one.
func TestThousandsOfRequests(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const thousands = 1000
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		run := zkrec.Request{Kind: zkrec.RequestRun}.Encode()
		var ops []zkconn.Op
		for k := range thousands {
			ops = append(ops, zkcreate(w.c.tree.Request("job", fmt.Sprintf("%05d", k)), run))
		}
		w.multi(ops...)
		reads := 0
		w.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if strings.HasPrefix(r.Path, w.c.tree.Requests("job")+"/") {
				reads++
			}
			return zkdev.Pass()
		})
		list := w.asked("job")
		if len(list) != thousands || reads != zkrec.MaxReadRequests || list[0].Kind != RequestRun || list[thousands-1].Kind != "" {
			t.Errorf("%d listed, %d read; want %d and %d", len(list), reads, thousands, zkrec.MaxReadRequests)
		}
		taken, err := w.c.CancelRequests(w.Context(), "job", "")
		if err != nil || len(taken) != thousands || len(w.asked("job")) > 0 {
			t.Errorf("%d canceled, %v; want all", len(taken), err)
		}
	})
}

// A schedule that begins at a time that no calendar has is invalid; one that begins later has its
// first run then.
func TestScheduleThatBeginsFarOff(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@hourly","since":9223372036854775807}`))
		if s := w.get("job"); s.State != StateInvalid || !strings.Contains(s.Reason.String(), "Since") || !s.NextRun.IsZero() {
			t.Errorf("%s, next run %v: %s", s.State, s.NextRun, s.Reason)
		}
		begins := time.Now().Add(1000 * time.Hour)
		w.put(w.c.tree.Job("job"), fmt.Appendf(nil, `{"schedule":"@hourly","since":%d}`, begins.UnixMilli()))
		if s := w.get("job"); s.NextRun.Before(begins) {
			t.Errorf("next run %v, want it after %v", s.NextRun, begins)
		}
	})
}

// A live instance that publishes no list of handlers, as older versions, or names one that cannot
// be, keeps nobody from reading a job that a program declares, and from canceling it.
func TestInstanceWithoutAListOfHandlers(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"", "/", "a/b", "..", "\x00", "0123456789abcdeg", "0123456789abcdef"} {
		inWorld(t, func(w *world) {
			w.submit(job.Job{Name: "job", Schedule: "@hourly"})
			w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@hourly","declared":"0","declared_by":"old"}`))
			w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Instances()))
			record := zkrec.Instance{Incarnation: "o", State: InstanceActive, Handlers: hash}.Encode()
			w.multi(zkconn.CreateEphemeralOp(w.c.tree.Instance("old"), record))
			if s := w.get("job"); s.Undeclared {
				t.Errorf("%q: the job is said to be declared by nobody", hash)
			}
			if d, err := w.c.Instance(w.Context(), "old"); err != nil || d.Handlers != nil {
				t.Errorf("%q: the instance has the handlers %q, %v", hash, d.Handlers, err)
			}
			if handlers, err := w.c.Handlers(w.Context()); err != nil || len(handlers) > 0 {
				t.Errorf("%q: the group has the handlers %q, %v", hash, handlers, err)
			}
			if _, err := w.c.Cancel(w.Context(), "job"); err != nil {
				t.Errorf("%q: not canceled: %v", hash, err)
			}
		})
	}
}

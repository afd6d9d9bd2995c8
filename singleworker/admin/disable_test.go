package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// placed starts an instance that has the handler of "job".
func (w *world) placed(sid, host string, labels map[string]string, specs int) {
	w.Helper()
	w.instance(sid, "job")
	record := zkrec.Instance{Incarnation: sid + "-1", State: InstanceActive, Host: host, Labels: labels, Specs: specs}
	w.put(w.c.tree.Instance(sid), record.Encode())
}

func TestOrdersForAJobAndForAHost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.placed("app-1", "db8", nil, zkrec.SpecSchema)
		w.placed("app-2", "db8", nil, 0)
		w.placed("app-3", "db9", nil, zkrec.SpecSchema)
		alice, bob := OrderOptions{By: "alice", Reason: "disk"}, OrderOptions{By: "bob"}
		one := Target{InstanceID: "app-1", Job: "job"}
		for what, step := range []struct {
			target Target
			opts   OrderOptions
			enable bool
			want   string // outcome, by, running instances that are bound, and those that are too old
			reason string // why nobody owns the job
		}{
			{target: one, opts: alice, want: "ordered alice app-1 []", reason: "waiting for app-2 or app-3 to adopt it"},
			{target: one, opts: alice, want: "unchanged alice app-1 []", reason: "waiting for app-2 or app-3 to adopt it"},
			{target: one, opts: bob, want: "ordered bob app-1 []", reason: "waiting for app-2 or app-3 to adopt it"},
			{target: Target{Host: "db8", Job: "job"}, opts: alice, want: "ordered alice app-1,app-2 [app-2]", reason: "waiting for app-3 to adopt it"},
			{target: Target{Host: "db9"}, opts: alice, want: "ordered alice app-3 []", reason: `no instance with handler "job" may run it: app-1 is disabled for the job, ` +
				`app-2 is on host db8, where the job is disabled, app-3 is draining`},
			{target: Target{Host: "db9"}, enable: true, want: "enabled alice app-3 []", reason: "waiting for app-3 to adopt it"},
			{target: Target{Host: "db9"}, enable: true, want: "unchanged  app-3 []", reason: "waiting for app-3 to adopt it"},
			{target: Target{InstanceID: "app-3"}, opts: bob, want: "ordered bob app-3 []", reason: `no instance with handler "job" may run it: app-1 is disabled for the job, ` +
				`app-2 is on host db8, where the job is disabled, app-3 is draining`},
			{target: Target{InstanceID: "app-3"}, enable: true, want: "enabled bob app-3 []", reason: "waiting for app-3 to adopt it"},
			{target: Target{Host: "db8", Job: "job"}, enable: true, want: "enabled alice app-1,app-2 [app-2]", reason: "waiting for app-2 or app-3 to adopt it"},
			{target: one, enable: true, want: "enabled bob app-1 []", reason: "waiting for app-1 or app-2 or app-3 to adopt it"},
		} {
			give := func() (OrderResult, error) { return w.c.DisableAt(w.Context(), step.target, step.opts) }
			if step.enable {
				give = func() (OrderResult, error) { return w.c.EnableAt(w.Context(), step.target) }
			}
			result, err := give()
			w.must(err)
			by := ""
			if result.Order != nil {
				by = result.Order.By
			}
			var bound []string
			for _, i := range result.Bound {
				bound = append(bound, i.ID)
			}
			if result.Instance != nil {
				bound = append(bound, result.Instance.ID)
			}
			if got := fmt.Sprintf("%s %s %s %s", result.Outcome, by, strings.Join(bound, ","), result.Deaf); got != step.want {
				w.Errorf("step %d: %s, want %s", what, got, step.want)
			}
			status := w.get("job")
			if got := status.Reason.String(); got != step.reason || status.State != StateUnowned {
				w.Errorf("step %d: %s: %s\nwant %s", what, status.State, got, step.reason)
			}
			if list, err := w.c.List(w.Context()); err != nil || list[0].Reason.String() != step.reason {
				w.Errorf("step %d: the list has %v, %v", what, list[0].Reason, err)
			}
		}
		w.wantOrders()
	})
}

func TestWhyNobodyMayRunAJob(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Require: map[string]string{"zone": "a", "disk": "ssd"}, Instances: []string{"app-1", "app-2", "app-4"}})
		w.placed("app-1", "db8", map[string]string{"zone": "b", "disk": "ssd"}, zkrec.SpecSchema)
		w.placed("app-2", "db8", nil, 0)
		w.placed("app-3", "db8", map[string]string{"zone": "a", "disk": "ssd"}, zkrec.SpecSchema)
		want := `no instance with handler "job" may run it: app-1 lacks zone=a, ` +
			`app-2 is of an older version, which cannot tell where the job may run, app-3 is not one of the job's instances`
		if status := w.get("job"); status.Reason.Code != reason.Nowhere || status.Reason.String() != want {
			w.Errorf("%s\nwant %s", status.Reason, want)
		}
		_, err := w.edit("job", func(j *job.Job) { j.Require, j.Instances = nil, []string{"app-3"} })
		w.must(err)
		if got := w.get("job").Reason.String(); got != "waiting for app-3 to adopt it" {
			w.Errorf("%s", got)
		}
	})
}

func TestOrdersThatAreRefused(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		for _, target := range []Target{{}, {InstanceID: "a", Host: "b"}, {Job: "job"}, {Host: "a/b"}, {InstanceID: "a/b", Job: "job"}, {Host: "a", Job: "job[3]"}} {
			_, err := w.c.DisableAt(w.Context(), target, OrderOptions{})
			_, again := w.c.EnableAt(w.Context(), target)
			if !errors.As(err, new(*invalid.FieldError)) || again == nil {
				w.Errorf("%+v: %v, %v", target, err, again)
			}
		}
		if _, err := w.c.DisableAt(w.Context(), Target{Host: "db8", Job: "jbo"}, OrderOptions{}); !errors.Is(err, ErrNotFound) {
			w.Errorf("%v, want ErrNotFound", err)
		}
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Exclusions()))
		var ops []zkconn.Op
		for i := range zkrec.MaxExclusions {
			x := zkrec.Exclusion{Host: fmt.Sprintf("db%d", i), Job: "job"}
			ops = append(ops, zkcreate(w.c.tree.Exclusion(x.Name()), x.Encode()))
		}
		for some := range slices.Chunk(ops, 100) {
			w.multi(some...)
		}
		if _, err := w.c.DisableAt(w.Context(), Target{Host: "full"}, OrderOptions{}); !errors.Is(err, ErrTooManyOrders) {
			w.Errorf("%v, want ErrTooManyOrders", err)
		}
		// What someone wrote there manually is replaced by the order that its name stands for.
		x := zkrec.Exclusion{Host: "db7", Job: "job"}
		w.put(w.c.tree.Exclusion(x.Name()), []byte("maintenance"))
		result, err := w.c.DisableAt(w.Context(), Target{Host: "db7", Job: "job"}, OrderOptions{By: "alice"})
		if err != nil || result.Outcome != OutcomeOrdered || result.Order.By != "alice" {
			w.Errorf("%+v, %v", result, err)
		}
	})
}

// One method says all of an instance, in few requests however many jobs there are.
func TestInstance(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "r1", Token: token, Attempt: 1, Started: noon.UnixMilli()})
		var ops []zkconn.Op
		for i := range 600 {
			for _, node := range w.c.tree.NewJob(fmt.Sprintf("other-%d", i), zkrec.Spec{Job: job.Job{Schedule: "@daily"}}) {
				ops = append(ops, zkcreate(node.Path, node.Data))
			}
		}
		for some := range slices.Chunk(ops, 500) {
			w.multi(some...)
		}
		w.submit(job.Job{Name: "sharded", Schedule: "@daily", Shards: 2})
		for _, node := range w.c.tree.NewShard("sharded[1]", 0) {
			w.multi(zkcreate(node.Path, node.Data))
		}
		w.adopt("app-1", "sharded[1]")
		w.put(w.c.tree.Tick("sharded[1]"), []byte("garbage"))
		hash, list, _ := zkrec.EncodeHandlers([]string{"sharded", "job"}, nil)
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Handlers()))
		w.multi(zkcreate(w.c.tree.HandlerList(hash), list))
		w.put(w.c.tree.Instance("app-1"), zkrec.Instance{
			Incarnation: "app-1-1", State: InstanceActive, Host: "db8", Address: "http://db8", Labels: map[string]string{"zone": "a"},
			Handlers: hash, MaxSlots: 3, SessionTimeout: zkrec.Duration(4 * time.Second),
		}.Encode())
		requests := 0
		w.server.ControlKeep(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { requests++; return zkdev.Pass() })
		d, err := w.c.Instance(w.Context(), "app-1")
		w.must(err)
		i := d.Instance
		if i.ID != "app-1" || i.Owned != 2 || i.MaxSlots != 3 || i.Address != "http://db8" || i.Labels["zone"] != "a" || i.Host != "db8" {
			w.Errorf("%+v", i)
		}
		if !slices.Equal(d.Handlers, []string{"job", "sharded"}) || d.SessionTimeout != 4*time.Second || !strings.HasPrefix(d.SessionID, "0x") || d.SessionID == "0x0" {
			w.Errorf("handlers %v, session %s, timeout %v", d.Handlers, d.SessionID, d.SessionTimeout)
		}
		if len(d.Slots) != 2 || d.Slots[0].Name != "job" || d.Slots[0].Token != token || d.Slots[0].Run == nil || d.Slots[0].Run.RunID != "r1" ||
			d.Slots[1].Name != "sharded[1]" || d.Slots[1].Run != nil || d.Slots[1].Error == "" {
			w.Errorf("slots %+v", d.Slots)
		}
		if requests > 14 { // one of them lists instances and orders, and one reads the sign of life
			w.Errorf("%d bulk requests for 602 jobs", requests)
		}
		t.Logf("%d bulk requests for 602 jobs", requests)
		if handlers, err := w.c.Handlers(w.Context()); err != nil || !slices.Equal(handlers, d.Handlers) {
			w.Errorf("handlers of the group: %q, %v", handlers, err)
		}
		if _, err := w.c.Instance(w.Context(), "app-9"); !errors.Is(err, ErrNoInstance) {
			w.Errorf("%v, want ErrNoInstance", err)
		}
		if _, err := w.c.Instance(w.Context(), "a/b"); !errors.As(err, new(*invalid.FieldError)) {
			w.Errorf("%v, want an *invalid.FieldError", err)
		}
	})
}

package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// peer creates the node of another instance, which publishes its handlers if there are some.
func peer(g *roomtest.Group, sid string, handlers ...string) {
	g.T.Helper()
	record := zkrec.Instance{Incarnation: sid + "-1", State: zkrec.InstanceActive}
	if len(handlers) > 0 {
		hash, data, _ := zkrec.EncodeHandlers(handlers, nil)
		if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Handlers()); err != nil {
			g.T.Fatal(err)
		}
		g.Create(g.Tree.HandlerList(hash), string(data))
		record.Handlers = hash
	}
	g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance(sid), record.Encode()))
}

// count counts the reads of a client by path, and its listings by path with a slash.
func count(g *roomtest.Group, client string) map[string]int {
	reads := make(map[string]int)
	for _, op := range []zkdev.Op{zkdev.OpGetData, zkdev.OpGetChildren2, zkdev.OpMultiRead} {
		g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
			switch {
			case r.Client != client:
			case r.Op == zkdev.OpGetChildren, r.Op == zkdev.OpGetChildren2:
				reads[r.Path+"/"]++
			default:
				reads[r.Path]++
			}
			return zkdev.Pass()
		})
	}
	return reads
}

// Who can run a job is known from the handlers that live members publish. The list of registrations
// is read only while one of them publishes none.
func TestHandlersTellWhoIsAble(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		for _, sid := range []string{"d", "old", "dead"} { // d and the dead one had another handler, or none, since
			g.Create(g.Tree.Registration("job", sid), "")
		}
		reads := count(g, "a")
		// Of a, c and d, a is the first, which looks for dead instances.
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}})
		a.Start()
		a.Do(func() {})
		able := func() []string { return told(a).last(g.T).Able }
		if got := able(); !slices.Equal(got, []string{"a"}) {
			g.T.Errorf("able %v, want this instance", got)
		}
		peer(g, "d", "other")
		peer(g, "c", "job", "other")
		roomtest.Pass(time.Millisecond)
		if got := able(); !slices.Equal(got, []string{"a", "c"}) {
			g.T.Errorf("able %v, want those that publish the handler", got)
		}
		g.Create(g.Tree.Registration("job", "x"), "")
		roomtest.Pass(10 * roomtest.SyncPeriod)
		if n := reads[g.Tree.Register("job")+"/"]; n != 1 {
			g.T.Errorf("the registrations were listed %d times, want once, to find dead instances", n)
		}
		peer(g, "old")
		roomtest.Pass(time.Millisecond)
		if got := able(); !slices.Equal(got, []string{"a", "c", "old"}) {
			g.T.Errorf("able %v, want also the one that is registered and publishes nothing", got)
		}
		g.Remove(g.Tree.Registration("job", "old"))
		roomtest.Pass(time.Millisecond)
		if got := able(); !slices.Equal(got, []string{"a", "c"}) {
			g.T.Errorf("able %v, want the registrations to be watched", got)
		}
		g.Remove(g.Tree.Instance("old"))
		g.Remove(g.Tree.Instance("c"))
		roomtest.Pass(time.Millisecond)
		if got := able(); !slices.Equal(got, []string{"a"}) {
			g.T.Errorf("able %v, want this instance", got)
		}
	})
}

// A job whose spec is another one, or has become unreadable, can be run by others.
func TestAbleFollowsTheSpec(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}}, "other")
		a.Start()
		peer(g, "b", "other")
		for _, step := range []struct {
			spec string
			want []string
		}{
			{`{"schedule":"@daily"}`, []string{"a"}},
			{`{"schedule":"@daily","handler":"other"}`, []string{"b"}},
			{`{`, nil},
			{`{"schedule":"@daily","handler":"job"}`, []string{"a"}},
		} {
			g.Set(g.Tree.Job("job"), []byte(step.spec))
			roomtest.Pass(time.Millisecond)
			if set := told(a).last(g.T); !slices.Equal(set.Able, step.want) || set.Eligible != slices.Contains(step.want, "a") {
				g.T.Errorf("%s: told %+v, want %v", step.spec, set, step.want)
			}
			g.WantNodes(slices.Contains(step.want, "a"), g.Tree.Registration("job", "a"))
		}
	})
}

// A list of handlers that does not match its name counts as none, and is logged once.
func TestHandlersThatAreNotWhatTheirHashSays(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Create(g.Tree.Registration("job", "b"), "")
		peer(g, "b", "other")
		hash, _, _ := zkrec.EncodeHandlers([]string{"other"}, nil)
		g.Set(g.Tree.HandlerList(hash), []byte("job"))
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}})
		a.Start()
		peer(g, "c", "job")
		peer(g, "d")
		roomtest.Pass(time.Millisecond)
		if set := told(a).last(g.T); !slices.Equal(set.Able, []string{"a", "b", "c"}) {
			g.T.Errorf("told %+v, want b as registered", set)
		}
		if n := strings.Count(a.Log.String(), g.Tree.HandlerList(hash)); n != 1 {
			g.T.Errorf("logged %d times, want once:\n%s", n, a.Log)
		}
	})
}

// Jobs that an instance reads before it joins are not read again, unless they have changed. Many
// jobs take few requests.
func TestJobsAreReadOnceAtTheStart(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		var ops []zkconn.Op
		const jobs = 300
		for i := range jobs {
			spec := zkrec.Spec{Job: job.Job{Schedule: "@hourly"}, Since: 1}
			ops = append(ops, session.CreateOps(g.Tree.NewJob(fmt.Sprintf("job-%03d", i), spec))...)
		}
		g.Multi(ops...)
		g.Create(g.Tree.Registration("job-007", "a"), "") // of an earlier start
		reads := count(g, "a")
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}})
		a.Prepare = func(ctx context.Context, attempt int) error {
			err := a.Catalog.RegisterAll(ctx, attempt)
			g.Set(g.Tree.Job("job-001"), []byte("@daily"))
			<-time.After(time.Millisecond) // until the watch has told
			return err
		}
		a.Start()
		roomtest.Pass(time.Second)
		for i := range jobs {
			name := fmt.Sprintf("job-%03d", i)
			want := 1
			if i == 1 {
				want = 2
			}
			if j := a.Catalog.JobOf(name); j == nil || !j.Eligible || reads[g.Tree.Job(name)] != want {
				g.T.Fatalf("%s: %+v, read %d times, want %d", name, j, reads[g.Tree.Job(name)], want)
			}
			g.WantNodes(true, g.Tree.Registration(name, "a"))
		}
		if a.Catalog.JobOf("job-001").Spec.Job.Schedule != "@daily" {
			g.T.Error("a job that changed before the instance joined was not read again")
		}
		if n := reads[""]; n > 10 {
			g.T.Errorf("%d bulk requests", n)
		}
	})
}

// Of a job that it cannot run an instance does not keep the fields that only its runs need.
func TestPayloadsOfOthersJobsAreNotKept(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "other")
		for handler, want := range map[string]int{"job": 1, "other": 0} {
			g.Set(g.Tree.Job("job"), []byte(`{"schedule":"@daily","handler":"`+handler+`","args":{"a":"b"},"payload":1,"labels":{"a":"b"}}`))
			roomtest.Pass(time.Second)
			j := a.Catalog.JobOf("job")
			kept := []int{len(j.Spec.Job.Args), len(j.Spec.Job.Payload), len(j.Spec.Job.Labels), len(j.Ticks.Policy.Args), len(j.Ticks.Policy.Payload)}
			if !slices.Equal(kept, slices.Repeat([]int{want}, 5)) || !j.Valid() || j.Eligible != (want == 1) {
				g.T.Errorf("handler %s: kept %v, want %d of each; %+v", handler, kept, want, j)
			}
		}
	})
}

// Where a job may run follows from its labels, its instances and operators' orders. An instance
// that has the handler stays registered. The parts of the spec that it did not keep meanwhile are
// read again.
func TestAbleFollowsWhereAJobMayRun(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Exclusions()); err != nil {
			g.T.Fatal(err)
		}
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}, Instance: zkrec.Instance{Labels: map[string]string{"zone": "a"}}})
		a.Start()
		place := func(sid, host, zone string, specs int) {
			hash, _, _ := zkrec.EncodeHandlers([]string{"job"}, map[string]string{})
			record := zkrec.Instance{
				Incarnation: sid + "-1", State: zkrec.InstanceActive, Handlers: hash, Host: host, Labels: map[string]string{"zone": zone}, Specs: specs,
			}
			g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance(sid), record.Encode()))
		}
		place("b", "db8", "b", zkrec.SpecSchema)
		place("c", "db8", "a", zkrec.SpecSchema)
		place("old", "db9", "a", 0)
		set := func(spec string) func() {
			return func() { g.Set(g.Tree.Job("job"), []byte(`{"schedule":"@daily","args":{"x":"y"}`+spec+`}`)) }
		}
		exclude := func(x zkrec.Exclusion) func() {
			return func() { g.Create(g.Tree.Exclusion(x.Name()), string(x.Encode())) }
		}
		lift := func(x zkrec.Exclusion) func() {
			return func() { g.Remove(g.Tree.Exclusion(x.Name())) }
		}
		mine, host := zkrec.Exclusion{SID: "a", Job: "job"}, zkrec.Exclusion{Host: "db8", Job: "job"}
		for what, step := range []struct {
			do   func()
			want string
		}{
			{set(``), "a b c old"},
			{set(`,"schema":2,"require":{"zone":"a"}`), "a c"},
			{set(`,"schema":2,"require":{"zone":"b"}`), "b"},
			{set(`,"schema":2,"instances":["a","b","old"]`), "a b"},
			{exclude(mine), "b"},
			{exclude(host), ""},
			{set(``), "old"},
			{lift(mine), "a old"},
			{lift(host), "a b c old"},
		} {
			step.do()
			roomtest.Pass(time.Second)
			got := told(a).last(g.T)
			here := slices.Contains(strings.Fields(step.want), "a")
			if strings.Join(got.Able, " ") != step.want || got.Eligible != here {
				g.T.Errorf("step %d: told %+v, want %q", what, got, step.want)
			}
			g.WantNodes(true, g.Tree.Registration("job", "a"))
			if j := a.Catalog.JobOf("job"); j.Eligible != here || here && j.Spec.Job.Args["x"] != "y" {
				g.T.Errorf("step %d: eligible %v, args %v", what, j.Eligible, j.Spec.Job.Args)
			}
		}
	})
}

// The slots of a job that is done are nobody's: they count in no share.
func TestNobodyCanRunAJobThatIsDone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		const spec = `{"schedule":"@at 2000-01-01T00:00:10Z","since":1`
		g.Submit("job")
		g.Set(g.Tree.Job("job"), []byte(spec+`}`))
		a := g.NewCatalog(member.Config{ID: "a", Handlers: []string{"job"}})
		a.Start()
		peer(g, "b", "job")
		roomtest.Pass(time.Second)
		if got := told(a).last(g.T); !got.Eligible || !slices.Equal(got.Able, []string{"a", "b"}) {
			g.T.Errorf("told %+v, want a and b to be able", got)
		}
		g.Set(g.Tree.Job("job"), []byte(spec+`,"done":{"since":1}}`))
		roomtest.Pass(time.Second)
		if got := told(a).last(g.T); got.Eligible || len(got.Able) > 0 {
			g.T.Errorf("told %+v of a job that is done, want nobody to be able", got)
		}
	})
}

package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start starts a member with a catalog, which can run every job but those named.
func start(g *roomtest.Group, without ...string) *roomtest.Rooms {
	g.T.Helper()
	r := g.NewCatalog(member.Config{ID: "a"}, without...)
	r.Start()
	r.Do(func() {})
	return r
}

// notices are those that were told, by kind.
type notices struct {
	set        []lease.SlotSet
	gone       []lease.Slot
	changed    []bool // Changed.Spec
	unrunnable []error
	repaired   []string
}

func told(r *roomtest.Rooms) (n notices) {
	for _, notice := range r.Told() {
		switch notice := notice.(type) {
		case catalog.SlotSet:
			n.set = append(n.set, notice.SlotSet)
		case catalog.SlotGone:
			n.gone = append(n.gone, notice.Slot)
		case catalog.Changed:
			n.changed = append(n.changed, notice.Spec)
		case catalog.Unrunnable:
			n.unrunnable = append(n.unrunnable, notice.Err)
		case catalog.Repaired:
			n.repaired = append(n.repaired, notice.Slot)
		}
	}
	return n
}

// last is the last SlotSet that was told.
func (n notices) last(t *testing.T) lease.SlotSet {
	t.Helper()
	if len(n.set) == 0 {
		t.Error("no SlotSet was told")
		return lease.SlotSet{}
	}
	return n.set[len(n.set)-1]
}

func (n notices) wantNothing(t *testing.T) {
	t.Helper()
	if len(n.set)+len(n.gone)+len(n.changed)+len(n.unrunnable)+len(n.repaired) > 0 {
		t.Errorf("told %+v, want nothing", n)
	}
}

func TestJobIsFollowedFromItsSubmissionToItsEnd(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g)
		told(a).wantNothing(g.T)

		g.Submit("job")
		roomtest.Pass(time.Millisecond)
		n := told(a)
		// Once as it is read, and once as it is after this instance has registered.
		if want := (lease.SlotSet{Slot: "job", Eligible: true, Able: []string{"a"}}); !equal(n.last(g.T), want) {
			g.T.Errorf("told %+v, want %+v in the end", n.set, want)
		}
		if len(n.changed) < 2 || !n.changed[0] || slices.Contains(n.changed[1:], true) {
			g.T.Errorf("changed %v, want the spec once", n.changed)
		}
		g.WantNodes(true, g.Tree.Registration("job", "a"))
		j := a.Catalog.JobOf("job")
		if !j.Eligible || !j.Valid() || !j.Has("job") || !slices.Equal(a.Catalog.Registered(), []string{"job"}) {
			g.T.Errorf("job %+v, registered at %v", j, a.Catalog.Registered())
		}

		g.Multi(
			zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()),
			zkconn.CreateOp(g.Tree.Registration("job", "b"), nil),
			zkconn.CreateOp(g.Tree.Registration("job", "dead"), nil),
		)
		roomtest.Pass(time.Millisecond)
		n = told(a)
		if !slices.Equal(n.last(g.T).Able, []string{"a", "b"}) || slices.Contains(n.changed, true) {
			g.T.Errorf("told %+v, want b to be able", n)
		}

		g.Pause(zkrec.Pause{Since: 1})
		roomtest.Pass(time.Millisecond)
		if n = told(a); !slices.Equal(n.changed, []bool{true}) || j.Spec.Switch.Paused == nil || j.Ticks.Paused.Since != 1 {
			g.T.Errorf("told %+v, ticks %+v, want the pause", n, j.Ticks)
		}

		g.Multi(g.Cancel()...)
		roomtest.Pass(time.Millisecond)
		n = told(a)
		if !slices.Equal(n.gone, []lease.Slot{"job"}) || len(n.changed) != 1 || a.Catalog.Current(j) || a.Catalog.JobOf("job") != nil {
			g.T.Errorf("told %+v, want the job to be gone", n)
		}
		if registered := a.Catalog.Registered(); len(registered) > 0 {
			g.T.Errorf("registered at %v", registered)
		}
	})
}

func equal(a, b lease.SlotSet) bool {
	return a.Slot == b.Slot && a.Eligible == b.Eligible && a.Group == b.Group && slices.Equal(a.Able, b.Able)
}

func TestCanceledJobIsGone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		told(a)
		spec := g.Spec()
		spec.Canceled = true
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(time.Millisecond)
		if n := told(a); !slices.Equal(n.gone, []lease.Slot{"job"}) || a.Catalog.JobOf("job") != nil {
			g.T.Errorf("told %+v, want the job to be gone", n)
		}
	})
}

// A job that cannot run here is told so, once, and this instance no longer registered for it; it is
// told as runnable when it is.
func TestUnrunnableJob(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		data  string
		valid bool
		want  func(err error) bool
	}{
		"unparsable":  {"{", false, func(err error) bool { return !errors.Is(err, catalog.ErrElsewhere) }},
		"no schedule": {"not a cron text", false, func(err error) bool { return !errors.Is(err, catalog.ErrElsewhere) }},
		"no handler": {`{"schedule":"@daily","handler":"missing"}`, true, func(err error) bool {
			return errors.Is(err, catalog.ErrElsewhere)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				was, _, _ := g.Get(g.Tree.Job("job"))
				a := start(g, "missing")
				told(a)
				g.Set(g.Tree.Job("job"), []byte(test.data))
				roomtest.Pass(time.Millisecond)
				n, j := told(a), a.Catalog.JobOf("job")
				if len(n.unrunnable) != 1 || !test.want(n.unrunnable[0]) {
					g.T.Errorf("unrunnable because of %v", n.unrunnable)
				}
				if j.Eligible || j.Valid() != test.valid || n.last(g.T).Eligible || !slices.Equal(j.Slots, []string{"job"}) {
					g.T.Errorf("job %+v, told %+v", j, n)
				}
				g.WantNodes(false, g.Tree.Registration("job", "a"))
				roomtest.Pass(10 * roomtest.SyncPeriod)
				if n := told(a); len(n.unrunnable) > 0 {
					g.T.Errorf("told %v again", n.unrunnable)
				}
				g.Set(g.Tree.Job("job"), was)
				roomtest.Pass(time.Millisecond)
				if n := told(a); !j.Eligible || !n.last(g.T).Eligible {
					g.T.Errorf("job %+v, told %+v, want it to run again", j, n)
				}
				g.WantNodes(true, g.Tree.Registration("job", "a"))
			})
		})
	}
}

// A job that may not be read can run again as soon as it may, although its spec has not changed.
func TestJobThatMayNotBeReadForAWhile(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		roomtest.Pass(3 * roomtest.SyncPeriod) // no sync looks at the job any more
		told(a)
		allow := g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.Tree.Job("job") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		a.Do(func() { a.Catalog.RefreshJob("job") })
		j := a.Catalog.JobOf("job")
		if n := told(a); len(n.unrunnable) != 1 || n.last(g.T).Eligible || j.Eligible || j.Valid() {
			g.T.Errorf("told %+v, job %+v, want it not to run", n, j)
		}
		allow()
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if n := told(a); !j.Eligible || !n.last(g.T).Eligible {
			g.T.Errorf("told %+v, job %+v, want it to run again", n, j)
		}
	})
}

// A schedule is parsed once per version of the spec. A job that is deleted and submitted again
// between two readings has another spec, of the same version.
func TestJobSubmittedAgainHasChanged(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		told(a)
		spec := zkrec.Spec{Job: jobs.Job{Schedule: "@daily"}, Since: 1}
		g.Multi(append(g.Cancel(), session.CreateOps(g.Tree.NewJob("job", spec))...)...)
		roomtest.Pass(time.Second)
		j := a.Catalog.JobOf("job")
		if n := told(a); !slices.Contains(n.changed, true) || j.Spec.Job.Schedule != "@daily" || j.Ticks.Schedule.String() != "@daily" {
			g.T.Errorf("told %+v, job %+v, want another spec", n, j)
		}
	})
}

func TestSpecIsParsedOncePerVersion(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		j := a.Catalog.JobOf("job")
		parsed := j.Ticks
		told(a)
		a.Do(func() { a.Catalog.RefreshJob("job") })
		if n := told(a); !slices.Equal(n.changed, []bool{false}) || j.Ticks != parsed {
			g.T.Errorf("told %+v, parsed again: %v", n, j.Ticks != parsed)
		}
		data, _, _ := g.Get(g.Tree.Job("job"))
		g.Set(g.Tree.Job("job"), data)
		roomtest.Pass(time.Millisecond)
		if n := told(a); !slices.Equal(n.changed, []bool{true}) || j.Ticks == parsed || j.Ticks.Version != j.Version {
			g.T.Errorf("told %+v, ticks of version %v, want the new one, %v", n, j.Ticks.Version, j.Version)
		}
	})
}

// An instance registers for the jobs that it can run before it appears; a job that it cannot read
// is not among them.
func TestRegistrationBeforeJoining(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		for _, job := range []string{"job", "elsewhere", "denied", "invalid"} {
			g.Submit(job)
		}
		g.Set(g.Tree.Job("invalid"), []byte("not a cron text"))
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.Tree.Job("denied") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		a := g.NewCatalog(member.Config{ID: "a"}, "elsewhere")
		a.OnEvent = nil // it does not join
		a.Start()
		a.Do(func() {
			a.Async("register", func(ctx context.Context) func() {
				err := a.Catalog.RegisterAll(ctx, 1)
				return func() {
					if err != nil {
						g.T.Error(err)
					}
				}
			})
		})
		g.WantNodes(true, g.Tree.Registration("job", "a"))
		for _, job := range []string{"elsewhere", "denied", "invalid"} {
			g.WantNodes(false, g.Tree.Registration(job, "a"))
		}
		if registered := a.Catalog.Registered(); !slices.Equal(registered, []string{"job"}) {
			g.T.Errorf("registered at %v, want job alone", registered)
		}
		a.Do(func() { a.Catalog.Unregistered("job") })
		if registered := a.Catalog.Registered(); len(registered) > 0 {
			g.T.Errorf("registered at %v, want none", registered)
		}
	})
}

// Readings that show no registration while one is on its way ask for no other one: of two in one
// transaction the second is refused, and no reading tells why.
func TestOneRegistrationIsUnderWay(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		path, asked := g.Tree.Registration("job", "a"), 0
		for _, op := range []zkdev.Op{zkdev.OpMulti, zkdev.OpCreate} {
			g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
				if slices.ContainsFunc(append(r.Ops, *r), func(op zkdev.Request) bool { return op.Op == zkdev.OpCreate && op.Path == path }) {
					asked++
				}
				return zkdev.Pass()
			})
		}
		g.Remove(path)
		a.Do(func() {
			for range 3 {
				a.Catalog.RefreshJob("job")
			}
		})
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.WantNodes(true, path)
		if asked != 1 {
			g.T.Errorf("asked for a registration %d times, want once", asked)
		}
	})
}

// A leaving instance does not register for new jobs.
func TestLeavingInstanceDoesNotRegister(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g)
		a.Do(a.Member.Leave)
		g.Submit("job")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.WantNodes(false, g.Tree.Registration("job", "a"))
	})
}

func TestMissingNodesAreRepaired(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job", g.Tree.Register("job"), g.Tree.Alive("job"), g.Tree.History("job"))
		a := start(g)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if n := told(a); !slices.Equal(slices.Compact(n.repaired), []string{"job"}) || !n.last(g.T).Eligible {
			g.T.Errorf("told %+v, want the job repaired", n)
		}
		g.WantNodes(true, g.Tree.Registration("job", "a"), g.Tree.Alive("job"), g.Tree.History("job"))
		g.Multi(g.Cancel()...)
		a.Do(func() { a.Catalog.Repair("job") })
		g.WantNodes(false, g.Tree.Job("job"))
	})
}

// Shards are slots when their nodes exist. Shards of another layout are stale, and the slots' end
// is told before the job's change.
func TestShardsAreCreatedAndChange(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(3)
		a := start(g)
		roomtest.Pass(time.Second)
		j := a.Catalog.JobOf("job")
		if want := []string{"job[0]", "job[1]", "job[2]"}; !slices.Equal(j.Slots, want) || !j.HasShards() {
			g.T.Fatalf("slots %v, want %v", j.Slots, want)
		}
		if n := told(a); n.last(g.T).Group != "job" {
			g.T.Errorf("told %+v, want the shards to be of one group", n.last(g.T))
		}
		spec := g.Spec()
		spec.Job.Shards = 2
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(time.Millisecond)
		var order []session.Notice
		for _, n := range a.Told() {
			switch n.(type) {
			case catalog.SlotGone, catalog.Changed:
				order = append(order, n)
			}
		}
		want := []session.Notice{catalog.SlotGone{Slot: "job[2]"}, catalog.Changed{Job: j, Spec: true}}
		if !slices.Equal(order, want) || !slices.Equal(j.Stale(), []string{"job[2]"}) || j.Has("job[2]") {
			g.T.Errorf("told %+v, stale %v", order, j.Stale())
		}
	})
}

// A node whose name swctl would refuse is not run, which is said once for all of them.
// A shard is not created any more once the spec has changed: here the job is being canceled.
func TestLateShardIsNotCreated(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(2)
		g.OnMulti(g.Tree.Slot("job[0]"), zkdev.Delay(time.Second))
		start(g)
		roomtest.Pass(500 * time.Millisecond)
		spec := g.Spec()
		spec.Canceled = true
		g.Set(g.Tree.Job("job"), spec.Encode())
		roomtest.Pass(2 * roomtest.SyncPeriod)
		g.WantNodes(false, g.Tree.Slot("job[0]"), g.Tree.Slot("job[1]"))
	})
}

// A list of jobs that becomes too long to be read is noticed in time, and said once.
func TestLongList(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		var ops []zkconn.Op
		for k := range listing.Warn / 200 {
			ops = append(ops, zkconn.CreateOp(fmt.Sprintf("%s/_%0199d", g.Tree.Root(), k), nil))
		}
		for part := range slices.Chunk(ops, 500) {
			g.Multi(part...)
		}
		a := start(g)
		g.Submit("job")
		roomtest.Pass(time.Minute)
		if log := a.Log.String(); strings.Count(log, "the list of jobs is half as long") != 1 {
			g.T.Errorf("logged, want one line:\n%s", log)
		}
	})
}

func TestMisnamedNodesAreNotRun(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		for _, name := range []string{" lead", strings.Repeat("x", 201), "a\u202eb"} {
			g.Submit(name)
		}
		a := start(g)
		g.Submit("job")
		roomtest.Pass(time.Minute)
		if n := told(a); len(n.set) == 0 || slices.ContainsFunc(n.set, func(s lease.SlotSet) bool { return s.Slot != "job" }) {
			g.T.Errorf("told %+v, want the job alone", n.set)
		}
		if registered := a.Catalog.Registered(); !slices.Equal(registered, []string{"job"}) {
			g.T.Errorf("registered at %q", registered)
		}
		if log := a.Log.String(); strings.Count(log, "nodes ignored") != 1 || !strings.Contains(log, "count=3") {
			g.T.Errorf("logged, want one line:\n%s", log)
		}
	})
}

// A switch that may not be read, or is no record, makes the job invalid: whether it is paused is
// not known.
func TestSwitchThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(g *roomtest.Group){
		"garbage":            func(g *roomtest.Group) { g.Set(g.Tree.Register("job"), []byte("garbage")) },
		"of a newer version": func(g *roomtest.Group) { g.Set(g.Tree.Register("job"), []byte(`{"schema":9}`)) },
		"denied": func(g *roomtest.Group) {
			g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
				if r.Client == "a" && r.Path == g.Tree.Register("job") {
					return zkdev.Refuse(zkdev.NoAuth)
				}
				return zkdev.Pass()
			})
			g.Set(g.Tree.Register("job"), nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g)
				j := a.Catalog.JobOf("job")
				if !j.Valid() || !j.Eligible {
					g.T.Fatalf("the job is %+v", j)
				}
				spoil(g)
				roomtest.Pass(roomtest.SyncPeriod)
				if j.Valid() || j.Eligible {
					g.T.Errorf("the job is %+v, want it invalid", j)
				}
			})
		})
	}
}

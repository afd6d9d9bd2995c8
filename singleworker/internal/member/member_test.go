package member_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start starts an idle member that owns nothing.
func start(g *roomtest.Group, cfg member.Config) *roomtest.Rooms {
	g.T.Helper()
	r := g.NewMember(cfg)
	r.OnSettled = func() (bool, error) {
		r.Member.SetLoad(0, true)
		r.Member.TellState()
		return false, nil
	}
	r.Start()
	r.Do(func() {})
	r.Told()
	return r
}

// follow reads the group, and reports whether the member is missing from it.
func follow(r *roomtest.Rooms) (g member.Group, lost bool) {
	r.Do(func() {
		fetch := r.Member.Roster.Fetch()
		r.Async("read group", func(ctx context.Context) func() {
			read, err := fetch(ctx)
			return func() {
				if g = read; err == nil {
					lost = r.Member.Follow(read)
				}
			}
		})
	})
	return g, lost
}

func record(g *roomtest.Group, sid string) zkrec.Instance {
	g.T.Helper()
	data, _, _ := g.Get(g.Tree.Instance(sid))
	record, err := zkrec.ParseInstance(data)
	if err != nil {
		g.T.Error(err)
	}
	return record
}

// The others must not offer slots back that they are offered: an instance publishes that it is
// closed, and only then hands over.
func TestRecordIsPublishedBeforeDrainingIsTold(t *testing.T) {
	t.Parallel()
	for what, closeIt := range map[string]func(m *member.Member){
		"leaving": (*member.Member).Leave, "drained": func(m *member.Member) { m.Drain(make(chan struct{})) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a"})
				g.OnMulti(g.Tree.Instance("a"), zkdev.DelayReply(time.Second))
				a.Do(func() { closeIt(a.Member) })
				if told := a.Told(); len(told) > 0 {
					g.T.Errorf("told %v although the record may not be written", told)
				}
				if r := record(g, "a"); !r.Closed() {
					g.T.Errorf("record %+v, want it closed", r)
				}
				roomtest.Pass(time.Second)
				if told := a.Told(); !slices.Equal(told, []session.Notice{member.Draining{On: true}}) {
					g.T.Errorf("told %v, want Draining", told)
				}
			})
		})
	}
}

func TestOrderBindsItsIncarnation(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		order       zkrec.Order
		binds, left bool
	}{
		"every start":    {zkrec.Order{}, true, true},
		"this start":     {zkrec.Order{Incarnation: "a-1"}, true, true},
		"an earlier one": {zkrec.Order{Incarnation: "a-0"}, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a"})
				follow(a) // which creates the parent of orders
				g.Create(g.Tree.Order("a"), string(test.order.Encode()))
				read, _ := follow(a)
				if read.Peers["a"].Closed != test.binds {
					g.T.Errorf("the others read %+v, want it closed: %v", read.Peers["a"], test.binds)
				}
				if told := roomtest.ToldA[member.Draining](a.Loop); (len(told) == 1 && told[0].On) != test.binds {
					g.T.Errorf("told %v, want Draining: %v", told, test.binds)
				}
				g.WantNodes(test.left, g.Tree.Order("a"))
				if !test.binds {
					return
				}
				g.Remove(g.Tree.Order("a"))
				follow(a)
				if told := a.Told(); !slices.Equal(told, []session.Notice{member.Draining{On: false}}) {
					g.T.Errorf("told %v when the order is lifted", told)
				}
			})
		})
	}
}

func TestDrainedIsToldWhenIdle(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a"})
		idle := false
		a.OnSettled = func() (bool, error) {
			a.Member.SetLoad(1, idle)
			a.Member.TellState()
			return false, nil
		}
		drained, again := make(chan struct{}), make(chan struct{})
		a.Do(func() { a.Member.Drain(drained) })
		roomtest.Pass(time.Minute)
		if r := record(g, "a"); r.State != zkrec.InstanceDraining || a.Member.Drained() {
			g.T.Errorf("record %+v, drained %v, while something runs", r, a.Member.Drained())
		}
		a.Do(func() { idle = true })
		<-drained
		if r := record(g, "a"); r.State != zkrec.InstanceDrained || r.Owned != 1 || !a.Member.Drained() {
			g.T.Errorf("record %+v, drained %v, when it is idle", r, a.Member.Drained())
		}
		a.Do(func() { a.Member.Drain(again) })
		<-again
	})
}

// An instance whose node is deleted, or is another's, learns from the group that it is dead to the
// others.
func TestLostIsTold(t *testing.T) {
	t.Parallel()
	for what, data := range map[string]string{"deleted": "", "overwritten": string(zkrec.Instance{Incarnation: "a-0"}.Encode())} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a"})
				if _, lost := follow(a); lost || len(roomtest.ToldA[member.Lost](a.Loop)) > 0 {
					g.T.Error("lost although nothing is")
				}
				g.Remove(g.Tree.Instance("a"))
				if data != "" {
					g.Create(g.Tree.Instance("a"), data)
				}
				_, lost := follow(a)
				if told := roomtest.ToldA[member.Lost](a.Loop); !lost || a.Joined() || len(told) != 1 {
					g.T.Errorf("lost %v, joined %v, told %v; want Lost", lost, a.Joined(), told)
				}
				if _, lost := follow(a); lost || len(a.Told()) > 0 {
					g.T.Error("told a second time")
				}
			})
		})
	}
}

// A reading that was begun in an earlier connection says nothing about this one.
func TestReadingOfAnEarlierConnectionLosesNothing(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a"})
		a.Do(func() {
			if a.Member.Follow(member.Group{}) {
				g.T.Error("lost")
			}
		})
	})
}

func TestDepartureTakesItsNodesAlong(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		action zkdev.Action
		done   bool
	}{
		"all well":   {zkdev.Pass(), true},
		"reply lost": {zkdev.CutAfter(), false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a"})
				follow(a)
				g.Submit("job")
				registration := g.Tree.Registration("job", "a")
				g.Create(registration, "")
				g.Create(g.Tree.Order("a"), string(zkrec.Order{Incarnation: "a-1"}.Encode()))
				follow(a)
				a.Told()
				g.OnMulti(registration, test.action)
				a.Do(func() {
					a.Member.Leave()
					a.Member.Depart([]string{"job", "another"})
					if running, _ := a.Member.Departure(); !running {
						g.T.Error("the departure does not run")
					}
				})
				if running, done := a.Member.Departure(); running || done != test.done {
					g.T.Errorf("running %v, done %v, want done %v", running, done, test.done)
				}
				if _, lost := follow(a); lost {
					g.T.Error("it takes its departure for a loss of its node")
				}
				if !test.done {
					return // it is done once more by who leaves
				}
				g.WantNodes(false, registration, g.Tree.Instance("a"), g.Tree.Order("a"))
				want := []member.Unregistered{{Job: "job"}, {Job: "another"}}
				if told := roomtest.ToldA[member.Unregistered](a.Loop); !slices.Equal(told, want) {
					g.T.Errorf("told %v, want %v", told, want)
				}
			})
		})
	}
}

// Of three survivors, one cleans up first; each next one would a session timeout later.
func TestSurvivorsCleanUpInTheOrderOfTheirRanks(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		survivors := make(map[string]*roomtest.Rooms)
		for _, sid := range []string{"a", "b", "c"} {
			survivors[sid] = start(g, member.Config{ID: sid})
		}
		for _, r := range survivors {
			follow(r)
			r.Do(func() {
				r.Member.Cleanup.Registered([]string{"dead", "a"})
				r.Member.Cleanup.Gone() // which notes since when
			})
		}
		start, found := time.Now(), make(map[time.Duration]bool)
		for time.Since(start) < 15*roomtest.SessionTimeout {
			for sid, r := range survivors {
				var gone []string
				r.Do(func() { gone = r.Member.Cleanup.Gone() })
				if slices.Equal(gone, []string{"dead"}) {
					found[time.Since(start).Round(roomtest.SessionTimeout)] = true
					delete(survivors, sid)
				}
			}
			roomtest.Pass(100 * time.Millisecond)
		}
		for rank := range 3 {
			if at := time.Duration(member.TidyAfter+rank) * roomtest.SessionTimeout; !found[at] {
				g.T.Errorf("nobody cleans up after %v, but after %v", at, found)
			}
		}
	})
}

// A dead instance's nodes are removed, except for those that belong to a live one by then.
func TestTidyRemovesTraces(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Submit("other")
		a := start(g, member.Config{ID: "a"})
		follow(a)
		g.Multi(
			zkconn.CreateOp(g.Tree.Registration("job", "dead"), nil),
			zkconn.CreateOp(g.Tree.Registration("job", "back"), nil),
			zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "dead", Incarnation: "dead-1"}.Encode(), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Heartbeat("job", "dead"), nil),
			zkconn.CreateOp(g.Tree.Heartbeat("other", "dead"), nil),
			zkconn.SetOp(g.Tree.Alive("other"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Order("dead"), zkrec.Order{Incarnation: "dead-1"}.Encode()),
			zkconn.CreateOp(g.Tree.Order("back"), zkrec.Order{}.Encode()),
			zkconn.CreateEphemeralOp(g.Tree.Instance("back"), zkrec.Instance{Incarnation: "back-2"}.Encode()),
		)
		follow(a)
		a.Do(func() {
			a.Member.Cleanup.Tidy([]string{"back", "dead"}, []member.Traced{
				{Job: "job", Slots: []string{"job"}},
				{Job: "other", Slots: []string{"other"}},
			})
		})
		g.WantNodes(false, g.Tree.Registration("job", "dead"), g.Tree.Heartbeat("job", "dead"),
			g.Tree.Heartbeat("other", "dead"), g.Tree.Order("dead"))
		g.WantNodes(true, g.Tree.Registration("job", "back"), g.Tree.Order("back"), g.Tree.Instance("back"))
		for job, want := range map[string]string{"job": "", "other": "b"} {
			data, _, _ := g.Get(g.Tree.Alive(job))
			if record, err := zkrec.ParseOwner(data); err != nil || record.SID != want {
				g.T.Errorf("%s is owned by %q, %v; want %q", job, record.SID, err, want)
			}
		}
	})
}

// enter does something with the entry of an instance that has not joined, beside its loop.
func enter(g *roomtest.Group, cfg member.Config, do func(ctx context.Context, e *member.Entry) error) (a *roomtest.Rooms, err error) {
	g.T.Helper()
	a = g.NewMember(cfg)
	a.OnEvent = nil // it does not join by itself
	a.Start()
	ended := make(chan error, 1)
	a.Do(func() {
		a.Async("enter", func(ctx context.Context) func() {
			err := do(ctx, a.Entry)
			return func() { ended <- err }
		})
	})
	return a, <-ended
}

func appear(ctx context.Context, e *member.Entry) error {
	_, err := e.Appear(ctx, zkrec.Instance{Incarnation: "a-1"})
	return err
}

// A node that no session holds, which someone created manually, is not an instance: it keeps nobody
// out but the one whose node it is in place of, and is logged once.
func TestNodeWithoutASessionIsNoInstance(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		latch := string(zkrec.Instance{Incarnation: "x", Mode: zkrec.ModeLatch}.Encode())
		g.Create(g.Tree.Instance("ghost"), latch)
		g.Create(g.Tree.Instance("hidden"), latch)
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == g.Tree.Instance("hidden") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if _, err := enter(g, member.Config{ID: "a"}, appear); err != nil {
			g.T.Errorf("Appear = %v", err)
		}
		b := start(g, member.Config{ID: "b"})
		for range 2 {
			if read, _ := follow(b); len(read.Peers) != 2 {
				g.T.Errorf("peers %v, want a and b", read.Peers)
			}
		}
		for _, sid := range []string{"ghost", "hidden"} {
			if n := strings.Count(b.Log.String(), "path="+g.Tree.Instance(sid)); n != 1 {
				g.T.Errorf("%s logged %d times, want once:\n%s", sid, n, b.Log)
			}
		}
		_, err := enter(g, member.Config{ID: "ghost"}, appear)
		if err == nil || errors.Is(err, member.ErrDuplicate) || !strings.Contains(err.Error(), g.Tree.Instance("ghost")) {
			g.T.Errorf("Appear in place of the node: %v, want what is in the way", err)
		}
	})
}

// A declared job whose node may not be read keeps no instance from starting.
func TestDeclarationOfAJobThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("hidden")
		g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == g.Tree.Job("hidden") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		hidden, shown := jobs.Job{Name: "hidden", Schedule: "@daily"}, jobs.Job{Name: "job", Schedule: "@daily"}
		a, err := enter(g, member.Config{ID: "a", Declarations: []member.Declaration{{Job: hidden}, {Job: shown}}},
			func(ctx context.Context, e *member.Entry) error { return errors.Join(e.Prepare(ctx), e.Declare(ctx)) })
		if err != nil {
			g.T.Errorf("Declare = %v", err)
		}
		g.WantNodes(true, g.Tree.Job("job"))
		if text := a.Log.String(); !strings.Contains(text, "path="+g.Tree.Job("hidden")) {
			g.T.Errorf("log %q, want the path", text)
		}
	})
}

// An instance of the same id, or of the other mode, that does not go is respected after 3.5 of its
// session timeouts.
func TestLiveInstanceKeepsAnotherOut(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		sid   string
		other zkrec.Instance
		want  error
	}{
		"of the same id":       {"a", zkrec.Instance{Incarnation: "a-0"}, member.ErrDuplicate},
		"whose session is cut": {"a", zkrec.Instance{Incarnation: "a-0", SessionLongest: zkrec.Duration(2 * roomtest.SessionTimeout)}, member.ErrDuplicate},
		"of the other mode":    {"b", zkrec.Instance{Incarnation: "b-0", Mode: zkrec.ModeLatch}, member.ErrMode},
		"of a latch elsewhere": {"b", zkrec.Instance{Incarnation: "b-0", Mode: zkrec.ModeLatchAt("/lead")}, member.ErrMode},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				if test.other.SessionTimeout = zkrec.Duration(2 * roomtest.SessionTimeout); test.other.SessionLongest > 0 {
					test.other.SessionTimeout /= 4
				}
				g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance(test.sid), test.other.Encode()))
				start := time.Now()
				_, err := enter(g, member.Config{ID: "a"}, appear)
				if took := time.Since(start); !errors.Is(err, test.want) || took < 7*roomtest.SessionTimeout || took > 8*roomtest.SessionTimeout {
					g.T.Errorf("Appear = %v after %v, want %v after 3.5 session timeouts", err, took, test.want)
				}
			})
		})
	}
}

// The code's declaration replaces a job that is based on another one, and leaves alone an
// operator's change on top of this one, and a newer version's declaration.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		declare := func(sid, schedule string) *roomtest.Rooms {
			declared := member.Declaration{Job: jobs.Job{Name: "job", Schedule: schedule}}
			a, err := enter(g, member.Config{ID: sid, Declarations: []member.Declaration{declared}},
				func(ctx context.Context, e *member.Entry) error { return errors.Join(e.Prepare(ctx), e.Declare(ctx)) })
			if err != nil {
				g.T.Error(err)
			}
			return a
		}
		wantSchedule := func(want string) {
			g.T.Helper()
			if spec := g.Spec(); spec.Job.Schedule != want {
				g.T.Errorf("schedule %q, want %q", spec.Job.Schedule, want)
			}
		}
		declare("a", "@daily")
		wantSchedule("@daily")
		if by := g.Spec().DeclaredBy; by != "a" {
			g.T.Errorf("declared by %q, want a", by)
		}
		changed := g.Spec()
		changed.Job.Schedule = "@weekly"
		g.Set(g.Tree.Job("job"), changed.Encode())
		declare("b", "@daily")
		wantSchedule("@weekly") // the operator's
		c := declare("c", "@hourly")
		wantSchedule("@hourly")
		if text := c.Log.String(); !strings.Contains(text, "was_declared_by=a") || !strings.Contains(text, "operators_change_lost=true") {
			g.T.Errorf("log %q, want whose declaration and change are lost", text)
		}
		if deed, _, _ := g.Get(g.Tree.Deeds() + "/d0000000000"); string(deed) != `{"schema":1,"kind":"declare","jobs":["job"],"from":"c","reason":"it replaces what an operator had changed"}` {
			g.T.Errorf("the log of who did what begins with %q", deed)
		}
		g.WantNodes(false, g.Tree.Deeds()+"/d0000000001")
		const newer = `{"schema":99,"schedule":"@yearly"}`
		g.Set(g.Tree.Job("job"), []byte(newer))
		d := declare("d", "@daily")
		if data, _, _ := g.Get(g.Tree.Job("job")); string(data) != newer {
			g.T.Errorf("the job is now %s", data)
		}
		if text := d.Log.String(); !strings.Contains(text, "declaration ignored") {
			g.T.Errorf("log %q, want the reason", text)
		}
	})
}

// A declaration that was slow on its way, and whose caller has given up, does not change the next
// job of the name.
func TestLateDeclarationLeavesTheNextJobAlone(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && op.Path == g.Tree.Job("job") }) {
				return zkdev.Delay(roomtest.SessionTimeout / 2)
			}
			return zkdev.Pass()
		})
		d := member.Declaration{Job: jobs.Job{Name: "job", Schedule: "@hourly"}}
		_, err := enter(g, member.Config{ID: "a"}, func(ctx context.Context, e *member.Entry) error {
			ctx, cancel := context.WithTimeout(ctx, roomtest.SessionTimeout/4)
			defer cancel()
			err := e.DeclareOne(ctx, d)
			g.Multi(g.Cancel()...)
			g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "@weekly"}})
			roomtest.Pass(roomtest.SessionTimeout)
			return err
		})
		if spec := g.Spec(); !errors.Is(err, zkconn.ErrUnavailable) || spec.Job.Schedule != "@weekly" {
			g.T.Errorf("%v; the next job has the schedule %q", err, spec.Job.Schedule)
		}
	})
}

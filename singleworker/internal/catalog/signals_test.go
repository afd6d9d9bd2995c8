package catalog_test

import (
	"context"
	"fmt"
	"maps"
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

// together names n jobs of one signal, and one of another.
func together(n int) (names []string, other string) {
	for k := 0; len(names) < n || other == ""; k++ {
		switch name := fmt.Sprintf("j%d", k); {
		case len(names) == 0 || zkrec.SignalOf(name) == zkrec.SignalOf(names[0]) && len(names) < n:
			names = append(names, name)
		case zkrec.SignalOf(name) != zkrec.SignalOf(names[0]):
			other = name
		}
	}
	return names, other
}

// readings counts the jobs' own nodes that an instance has read since the last call, by job.
func readings(g *roomtest.Group, client string) func() map[string]int {
	return g.Reads(client, zkdev.OpGetData, g.Tree.Job)
}

// scheduleOf is a job's, as an instance knows it.
func scheduleOf(r *roomtest.Rooms, job string) (schedule string) {
	r.Do(func() { schedule = r.Catalog.JobOf(job).Spec.Job.Schedule })
	return schedule
}

// change sets a job's schedule, and the data of its signal to each text of told.
func change(g *roomtest.Group, job, schedule string, told ...string) {
	g.T.Helper()
	ops := []zkconn.Op{zkconn.SetOp(g.Tree.Job(job), zkrec.Spec{Job: jobs.Job{Schedule: schedule}, Since: 1}.Encode(), zkconn.AnyVersion)}
	for _, about := range told {
		ops = append(ops, zkconn.SetOp(g.Tree.Signal(zkrec.SignalOf(job)), []byte(about), zkconn.AnyVersion))
	}
	g.Multi(ops...)
	roomtest.Pass(time.Millisecond)
}

// A change is told by the signal of its job: that job alone is read, if the signal says so, and all
// of the signal's if it may have told of others that were not seen.
func TestWhatASignalTells(t *testing.T) {
	t.Parallel()
	names, other := together(3)
	all := map[string]int{names[0]: 1, names[1]: 1, names[2]: 1}
	for what, test := range map[string]struct {
		told []string
		want map[string]int
	}{
		"a job":                 {[]string{names[0]}, map[string]int{names[0]: 1}},
		"two changes at once":   {[]string{names[1], names[0]}, all},
		"no job":                {[]string{""}, all},
		"a job of another part": {[]string{other}, all},
		"no name of a job":      {[]string{"_x"}, all},
		"a job that is gone":    {[]string{gone(names)}, map[string]int{}},
		"nothing":               {nil, map[string]int{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				for _, name := range append(slices.Clone(names), other) {
					g.Submit(name)
				}
				a := start(g)
				roomtest.Pass(2 * roomtest.SyncPeriod) // all were read when it joined
				read := readings(g, "a")
				change(g, names[0], "@daily", test.told...)
				if got := read(); !maps.Equal(got, test.want) {
					g.T.Errorf("read %v, want %v", got, test.want)
				}
				if known := scheduleOf(a, names[0]); (known == "@daily") != (test.want[names[0]] > 0) {
					g.T.Errorf("knows %q", known)
				}
				change(g, names[0], "@hourly", names[0])
				if got := read(); !maps.Equal(got, map[string]int{names[0]: 1}) || scheduleOf(a, names[0]) != "@hourly" {
					g.T.Errorf("read %v after the next change", got)
				}
			})
		})
	}
}

// gone is a name of the same part that no job has.
func gone(names []string) string {
	for k := 0; ; k++ {
		if name := fmt.Sprintf("gone%d", k); zkrec.SignalOf(name) == zkrec.SignalOf(names[0]) {
			return name
		}
	}
}

// Many changes at once do not have all jobs read for each: after the first time that is done once
// in a sync period.
func TestManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	names, _ := together(2)
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit(names[0])
		g.Submit(names[1])
		a := start(g)
		roomtest.Pass(roomtest.SyncPeriod)
		read := readings(g, "a")
		const schedules = 20
		for k := range schedules {
			change(g, names[k%2], fmt.Sprintf("%d 0 0 * * ?", k), "", "")
		}
		if got := read(); got[names[0]] != 1 || got[names[1]] != 1 {
			g.T.Errorf("read %v, want each job once", got)
		}
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if got := read(); got[names[0]] != 1 || got[names[1]] != 1 {
			g.T.Errorf("then read %v, want each job once more", got)
		}
		for k, name := range names {
			if want := fmt.Sprintf("%d 0 0 * * ?", schedules-2+k); scheduleOf(a, name) != want {
				g.T.Errorf("%s has %q, want %q", name, scheduleOf(a, name), want)
			}
		}
	})
}

// A signal that somebody deletes is made again, and its jobs are read: a change may have told
// nobody meanwhile.
func TestSignalIsMadeAgain(t *testing.T) {
	t.Parallel()
	names, other := together(2)
	for _, path := range []string{"signal", "parent"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit(names[0])
				g.Submit(other)
				a := start(g)
				roomtest.Pass(2 * roomtest.SyncPeriod)
				signal := g.Tree.Signal(zkrec.SignalOf(names[0]))
				ops := []zkconn.Op{zkconn.SetOp(g.Tree.Job(names[0]), []byte("@daily"), zkconn.AnyVersion)}
				for n := range zkrec.Signals {
					if one := g.Tree.Signal(n); path == "parent" || one == signal {
						ops = append(ops, zkconn.DeleteOp(one, zkconn.AnyVersion))
					}
				}
				if path == "parent" {
					ops = append(ops, zkconn.DeleteOp(g.Tree.Changes(), zkconn.AnyVersion))
				}
				g.Multi(ops...)
				roomtest.Pass(time.Millisecond)
				g.WantNodes(true, signal)
				if known := scheduleOf(a, names[0]); known != "@daily" {
					g.T.Errorf("knows %q", known)
				}
				change(g, names[0], "@hourly", names[0])
				change(g, other, "@hourly", other)
				for _, name := range []string{names[0], other} {
					if known := scheduleOf(a, name); known != "@hourly" {
						g.T.Errorf("%s has %q, want what was told", name, known)
					}
				}
			})
		})
	}
}

// A signal that was deleted and made again counts from 0: its next version may not follow the last
// known one of its predecessor.
func TestAnotherSignalOfThePath(t *testing.T) {
	t.Parallel()
	names, _ := together(2)
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit(names[0])
		g.Submit(names[1])
		a := start(g)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		signal := g.Tree.Signal(zkrec.SignalOf(names[0]))
		g.Multi(zkconn.SetOp(g.Tree.Job(names[0]), []byte("@daily"), zkconn.AnyVersion), zkconn.DeleteOp(signal, zkconn.AnyVersion),
			zkconn.CreateOp(signal, nil), zkconn.SetOp(signal, []byte(names[1]), zkconn.AnyVersion))
		roomtest.Pass(time.Millisecond)
		if known := scheduleOf(a, names[0]); known != "@daily" {
			g.T.Errorf("knows %q", known)
		}
	})
}

// While signals may not be read, the jobs are read once in a sync period, and it is logged once.
func TestSignalsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		allow := g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if _, is := g.Tree.SignalAt(r.Path); is && r.Client == "a" {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		a := start(g)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		a.Client.Partition()
		roomtest.Pass(roomtest.SessionTimeout / 2)
		a.Client.Heal() // which begins no second round of readings
		read := readings(g, "a")
		roomtest.Pass(time.Minute)
		if n, periods := read()["job"], int(time.Minute/roomtest.SyncPeriod); n < periods-2 || n > periods+2 {
			g.T.Errorf("read %d times in %d sync periods", n, periods)
		}
		change(g, "job", "@daily", "job")
		roomtest.Pass(roomtest.SyncPeriod)
		if known := scheduleOf(a, "job"); known != "@daily" {
			g.T.Errorf("knows %q after a sync period", known)
		}
		if log := a.Log.String(); strings.Count(log, "not told of changes") != 1 {
			g.T.Errorf("logged, want one line:\n%s", log)
		}
		allow()
		roomtest.Pass(2 * roomtest.SyncPeriod)
		read()
		roomtest.Pass(5 * roomtest.SyncPeriod)
		if got := read(); len(got) > 0 {
			g.T.Errorf("read %v, want nothing until it is told", got)
		}
		change(g, "job", "@hourly", "job")
		if known := scheduleOf(a, "job"); known != "@hourly" {
			g.T.Errorf("knows %q when it was told", known)
		}
	})
}

// A change that nobody tells of is seen in 60 sync periods.
func TestChangeOfWhichNobodyTells(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		change(g, "job", "@daily")
		roomtest.Pass(20 * roomtest.SyncPeriod)
		if known := scheduleOf(a, "job"); known == "@daily" {
			g.T.Error("seen although nobody told: this test shows nothing")
		}
		roomtest.Pass(42 * roomtest.SyncPeriod)
		if known := scheduleOf(a, "job"); known != "@daily" {
			g.T.Errorf("knows %q", known)
		}
	})
}

// After each reconnect everything is read again that a signal may have told of meanwhile, in a new
// session, too.
func TestChangeWhileDisconnected(t *testing.T) {
	t.Parallel()
	for what, gap := range map[string]time.Duration{"resumed": roomtest.SessionTimeout / 2, "expired": 3 * roomtest.SessionTimeout} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g)
				a.Client.Partition()
				roomtest.Pass(time.Second)
				change(g, "job", "@daily", "job")
				roomtest.Pass(gap)
				a.Client.Heal()
				roomtest.Pass(roomtest.SyncPeriod)
				if known := scheduleOf(a, "job"); known != "@daily" {
					g.T.Errorf("knows %q", known)
				}
				change(g, "job", "@hourly", "job")
				if known := scheduleOf(a, "job"); known != "@hourly" {
					g.T.Errorf("knows %q", known)
				}
			})
		})
	}
}

// An instance begins with the jobs that were read before it appeared, and is told of changes until
// then.
func TestChangeBeforeJoining(t *testing.T) {
	t.Parallel()
	names, other := together(2)
	roomtest.InGroup(t, func(g *roomtest.Group) {
		for _, name := range append(slices.Clone(names), other) {
			g.Submit(name)
		}
		a := g.NewCatalog(member.Config{ID: "a", Handlers: append(slices.Clone(names), other)})
		read := readings(g, "a")
		a.Prepare = func(ctx context.Context, attempt int) error {
			err := a.Catalog.RegisterAll(ctx, attempt)
			<-time.After(time.Second)
			return err
		}
		a.Start()
		roomtest.Pass(time.Second / 2)
		if got := read(); len(got) != 3 {
			g.T.Errorf("read %v before it appears", got)
		}
		change(g, names[0], "@daily", names[0])
		roomtest.Pass(time.Second)
		if got := read(); !maps.Equal(got, map[string]int{names[0]: 1}) || scheduleOf(a, names[0]) != "@daily" {
			g.T.Errorf("then read %v, want what has changed", got)
		}
	})
}

// A job that is deleted and submitted again between two readings of the list is told of, too.
func TestDeletionIsTold(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g)
		var was int64
		a.Do(func() { was = a.Catalog.JobOf("job").Created })
		g.Server.Control(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == g.Tree.Root() {
				return zkdev.DelayReply(time.Second)
			}
			return zkdev.Pass()
		})
		g.Multi(g.Cancel()...)
		g.Multi(session.CreateOps(g.Tree.NewJob("job", zkrec.Spec{Job: jobs.Job{Schedule: "@daily"}, Since: 1}))...)
		roomtest.Pass(3 * time.Second)
		a.Do(func() {
			if j := a.Catalog.JobOf("job"); j == nil || j.Created == was || j.Spec.Job.Schedule != "@daily" {
				g.T.Errorf("knows %+v, want the job that was submitted last", j)
			}
		})
	})
}

package member_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

func exclude(g *roomtest.Group, x zkrec.Exclusion) (path string) {
	g.T.Helper()
	path = g.Tree.Exclusion(x.Name())
	if err := g.Editor.EnsureRoot(g.T.Context(), g.Tree.Exclusions()); err != nil {
		g.T.Fatal(err)
	}
	g.Create(path, string(x.Encode()))
	return path
}

// Exclusions cost one request for their list, and one for those that are new. An order that cannot
// be read binds nobody, and is logged once.
func TestExclusionsAreReadOnce(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		report := &job.Job{Name: "report"}
		exclude(g, zkrec.Exclusion{SID: "b", Job: "report"})
		a := start(g, member.Config{ID: "a"})
		follow(a)
		if err := a.Member.Place.MayRun(report); err != nil {
			g.T.Errorf("excluded: %v, although another instance is", err)
		}
		n := reads(g, "a")
		mine := exclude(g, zkrec.Exclusion{SID: "a", Job: "report"})
		if follow(a); *n != 4 || a.Member.Place.MayRun(report) == nil || a.Member.Place.MayRun(&job.Job{Name: "backup"}) != nil {
			g.T.Errorf("%d reads, want the instances, the list, and one request with the new one; %v", *n, a.Member.Place.MayRun(report))
		}
		*n = 0
		g.Remove(mine)
		if follow(a); *n != 2 || a.Member.Place.MayRun(report) != nil {
			g.T.Errorf("%d reads, want the instances and the list; %v", *n, a.Member.Place.MayRun(report))
		}
		garbage := g.Tree.Exclusion("garbage")
		g.Create(garbage, `{"schema":1,"instance":"a","job":"report"}`)
		for range 3 {
			*n = 0
			follow(a)
		}
		if logged := strings.Count(a.Log.String(), garbage); *n != 1 || logged != 1 || a.Member.Place.MayRun(report) != nil {
			g.T.Errorf("%d reads, want one; logged %d times, want once; %v", *n, logged, a.Member.Place.MayRun(report))
		}
	})
}

// Who joins knows the exclusions before it may take anything.
func TestExclusionsAreKnownBeforeTheInstanceAppears(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		exclude(g, zkrec.Exclusion{SID: "a", Job: "report"})
		a := g.NewMember(member.Config{ID: "a"})
		a.Prepare = func(ctx context.Context, _ int) error { return a.Member.Place.Prime(ctx) }
		a.Start()
		roomtest.Pass(time.Second)
		a.Do(func() {
			if a.Member.Place.MayRun(&job.Job{Name: "report"}) == nil {
				g.T.Error("not excluded before it has read the group")
			}
		})
	})
}

// A disabled host closes each of its instances, also for the others.
func TestDisabledHostClosesItsInstances(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		at := func(sid, host string) *roomtest.Rooms {
			return start(g, member.Config{ID: sid, Instance: zkrec.Instance{Host: host}})
		}
		a, b := at("a", "db8"), at("b", "db9")
		follow(a)
		path := exclude(g, zkrec.Exclusion{Host: "db8", By: "alice"})
		late := at("c", "db8")
		for _, r := range []*roomtest.Rooms{a, b, late} {
			read, _ := follow(r)
			if !read.Peers["a"].Closed || read.Peers["b"].Closed || !read.Peers["c"].Closed {
				g.T.Errorf("peers %+v, want those of the host closed", read.Peers)
			}
			r.Do(func() { r.Member.SetLoad(0, true) })
			r.Do(r.Member.TellState)
		}
		roomtest.Pass(time.Second)
		states := func() string {
			var all []string
			for _, r := range []*roomtest.Rooms{a, b, late} {
				all = append(all, r.Member.Record().State)
			}
			return strings.Join(all, " ")
		}
		if got := states(); got != "disabled active disabled" {
			g.T.Errorf("states %s", got)
		}
		g.Remove(path)
		for _, r := range []*roomtest.Rooms{a, b, late} {
			follow(r)
		}
		if got := states(); got != "active active active" {
			g.T.Errorf("enabled: states %s", got)
		}
	})
}

package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// start starts an instance with a journal; it ends with the test.
func start(g *roomtest.Group, sid string) *roomtest.Rooms {
	g.T.Helper()
	r := g.NewJournal(sid)
	r.Start()
	return r
}

// wantRequests expects exactly these requests to be pending.
func wantRequests(g *roomtest.Group, want ...string) {
	g.T.Helper()
	names, _, err := g.Editor.Children(g.T.Context(), g.Tree.Requests("job"))
	slices.Sort(names)
	if err != nil || !slices.Equal(names, want) {
		g.T.Errorf("requests %q (%v) are there, want %q", names, err, want)
	}
}

// asked is an instance that owns the job, of which request q1 wants a run.
func asked(g *roomtest.Group) (*roomtest.Rooms, journal.Ownership) {
	g.T.Helper()
	g.Submit("job")
	g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
	a := start(g, "a")
	return a, a.Ownership()
}

// manualClaim is a commit that opens the manual run requested by q1.
func manualClaim(o journal.Ownership, from zkrec.Tick, id string) ticks.Commit {
	c := roomtest.Claim(o, from, id, 60)
	c.Plan.Record.Manual = "q1"
	return c
}

// Of requests that someone wrote manually, by the thousand, the oldest are read, and then the next
// ones.
func TestThousandsOfRequests(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		const some, all = zkrec.MaxReadRequests, 10 * zkrec.MaxReadRequests
		for k := range all {
			g.Ask(fmt.Sprintf("q%04d", k), zkrec.Request{Kind: zkrec.RequestRun})
		}
		a := start(g, "a")
		o := a.Ownership()
		if len(o.Requests) != some || o.Requests[0].ID != "q0000" {
			g.T.Errorf("adopted with %d requests, want the oldest %d", len(o.Requests), some)
		}
		a.Journal.Drop("job", "q0000")
		roomtest.Pass(100 * time.Millisecond)
		if ids := a.Requests(); len(ids) != some || ids[0] != "q0001" || ids[some-1] != fmt.Sprintf("q%04d", some) {
			g.T.Errorf("reported %d, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
		}
		if n := strings.Count(a.Log.String(), "too many requests"); n != 1 {
			g.T.Errorf("logged %d times, want once:\n%s", n, a.Log)
		}
	})
}

func TestRequestsAreReportedInOrder(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun, Args: map[string]string{"n": "1"}})
		a := start(g, "a")
		o := a.Ownership()
		if len(o.Requests) != 1 || o.Requests[0].ID != "q1" || o.Requests[0].Args["n"] != "1" {
			g.T.Errorf("adopted with requests %+v, want q1", o.Requests)
		}
		g.Ask("q3", zkrec.Request{Kind: zkrec.RequestRun})
		g.Ask("q2", zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"})
		roomtest.Pass(100 * time.Millisecond)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q1", "q2", "q3"}) {
			g.T.Errorf("reported %q, want q1, q2 and q3", ids)
		}
		a.Journal.Drop("job", "q2")
		a.Journal.Drop("job", "never was")
		roomtest.Pass(100 * time.Millisecond)
		wantRequests(g, "q1", "q3")
	})
}

func TestManualRunAndItsResult(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		claimed := a.MustCommit(manualClaim(o, *o.Record, "r1"))
		roomtest.Pass(roomtest.SyncPeriod)
		wantRequests(g, "q1")
		c := roomtest.Outcome(claimed, history.StateOK)
		c.Plan.Request = "q1"
		g.WantRecords(a.MustCommit(c), "r1 ok")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		wantRequests(g)
	})
}

func TestCanceledRequestOpensNoRun(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		if _, err := roomtest.Written(a.Journal, manualClaim(o, *o.Record, "r1")); !errors.Is(err, ticks.ErrNoRequest) {
			g.T.Errorf("Commit = %v, want ticks.ErrNoRequest", err)
		}
		g.WantRecords(zkrec.Tick{})
		a.MustCommit(roomtest.Claim(o, *o.Record, "r2", 60)) // nothing is stuck
	})
}

// The request guards the start of its run and nothing after that.
func TestRequestIsCanceledDuringItsRun(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		claimed := a.MustCommit(manualClaim(o, *o.Record, "r1"))
		g.Remove(g.Tree.Request("job", "q1"))
		skipped := roomtest.Commit(o, claimed, claimed)
		skipped.Plan.Record.Watermark = 120
		skipped.Plan.Entries = []zkrec.Entry{{Run: zkrec.Run{Tick: 120, State: history.StateSkipped}}}
		c := roomtest.Outcome(a.MustCommit(skipped), history.StateOK)
		c.Plan.Request = "q1"
		g.WantRecords(a.MustCommit(c), " skipped", "r1 ok")
	})
}

// The request that the result is to remove was deleted manually.
func TestRequestIsGoneWhenTheResultIsWritten(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		c := roomtest.Outcome(a.MustCommit(manualClaim(o, *o.Record, "r1")), history.StateOK)
		c.Plan.Request = "q1"
		g.Remove(g.Tree.Request("job", "q1"))
		g.WantRecords(a.MustCommit(c), "r1 ok")
	})
}

// The request that the result is to remove cannot be removed: the result is written nevertheless,
// and the request is not run a second time.
func TestRequestStaysWhenTheResultIsWritten(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		c := roomtest.Outcome(a.MustCommit(manualClaim(o, *o.Record, "r1")), history.StateOK)
		c.Plan.Request = "q1"
		g.Create(g.Tree.Request("job", "q1")+"/note", "")
		g.WantRecords(a.MustCommit(c), "r1 ok")
		if text := a.Log.String(); !strings.Contains(text, "request=q1") {
			g.T.Errorf("log %q, want it to name the request", text)
		}
		g.Ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
		roomtest.Pass(2 * roomtest.SyncPeriod)
		wantRequests(g, "q1", "q2")
		if ids := a.Requests(); !slices.Equal(ids, []string{"q2"}) {
			g.T.Errorf("requests %q, want q2", ids)
		}
	})
}

// A run that is to be repeated still needs its request.
func TestRequestIsCanceledBeforeTheSecondAttempt(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		claimed := a.MustCommit(manualClaim(o, *o.Record, "r1"))
		g.Remove(g.Tree.Request("job", "q1"))
		if _, err := roomtest.Written(a.Journal, manualClaim(o, claimed, "r2")); !errors.Is(err, ticks.ErrNoRequest) {
			g.T.Errorf("Commit = %v, want ticks.ErrNoRequest", err)
		}
	})
}

func TestUnreadableRequestIsIgnored(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Create(g.Tree.Request("job", "q0"), "garbage")
		g.Create(g.Tree.Request("job", "q1"), `{"schema":99,"kind":"run"}`)
		g.Ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
		a := start(g, "a")
		a.Ownership()
		roomtest.Pass(10 * roomtest.SyncPeriod)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q2"}) {
			g.T.Errorf("requests %q, want q2", ids)
		}
		if n := strings.Count(a.Log.String(), "request ignored: it cannot be read"); n != 2 {
			g.T.Errorf("logged %d times, want once for each:\n%s", n, a.Log)
		}
		g.Remove(g.Tree.Request("job", "q0"))
		roomtest.Pass(roomtest.SyncPeriod)
		g.Ask("q0", zkrec.Request{Kind: zkrec.RequestRun})
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q0", "q2"}) {
			g.T.Errorf("requests %q, want the new q0, too", ids)
		}
	})
}

// If an ACL keeps the instance from reading requests, the job still runs.
func TestRequestsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("group")
	for what, test := range map[string]struct {
		op   zkdev.Op
		path string
		want []string
	}{
		"one of them": {zkdev.OpGetData, tree.Request("job", "q1"), []string{"q2"}},
		"their list":  {zkdev.OpGetChildren2, tree.Requests("job"), nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
				g.Ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
				g.Server.ControlKeep(test.op, func(r *zkdev.Request) zkdev.Action {
					if r.Client == "a" && r.Path == test.path {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				a := start(g, "a")
				a.Ownership()
				roomtest.Pass(10 * roomtest.SyncPeriod)
				if ids := a.Requests(); !slices.Equal(ids, test.want) {
					g.T.Errorf("requests %q, want %q", ids, test.want)
				}
				if n := strings.Count(a.Log.String(), "cannot be read"); n != 1 {
					g.T.Errorf("logged %d times, want once:\n%s", n, a.Log)
				}
			})
		})
	}
}

// A request whose removal failed is reported again, so that it is removed eventually.
func TestFailedDropIsReportedAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Ask("q1", zkrec.Request{Kind: zkrec.RequestStop, RunID: "over"})
		a := start(g, "a")
		a.Ownership()
		g.OnMulti("/q1", zkdev.CutBefore())
		a.Lock()
		a.Announced = 0
		a.Unlock()
		a.Journal.Drop("job", "q1")
		roomtest.Pass(3 * roomtest.SyncPeriod)
		a.Lock()
		told := a.Announced
		a.Unlock()
		if told != 1 {
			g.T.Errorf("reported %d times after the failure, want once", told)
		}
		wantRequests(g, "q1")
		a.Journal.Drop("job", "q1")
		roomtest.Pass(roomtest.SyncPeriod)
		wantRequests(g)
	})
}

package coord

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ask makes a request as an operator would.
func (g *group) ask(id string, r zkrec.Request) {
	g.t.Helper()
	r.At = time.Now()
	g.multi(zkconn.CreateOp(g.tree.Request("job", id), r.Encode()))
}

func (g *group) remove(path string) {
	g.t.Helper()
	g.multi(zkconn.DeleteOp(path, zkconn.AnyVersion))
}

// wantRequests expects exactly these requests to be pending.
func (g *group) wantRequests(want ...string) {
	g.t.Helper()
	names, _, err := g.editor.Children(g.t.Context(), g.tree.Requests("job"))
	slices.Sort(names)
	if err != nil || !slices.Equal(names, want) {
		g.t.Errorf("requests %q (%v) are there, want %q", names, err, want)
	}
}

// manualClaim is a commit that opens the manual run requested by q1.
func manualClaim(o journal.Ownership, from zkrec.Tick, id string) ticks.Commit {
	c := claim(o, from, id, 60)
	c.Plan.Record.Manual = "q1"
	return c
}

func TestRequestsAreReportedInOrder(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun, Args: map[string]string{"n": "1"}})
		a := g.join("a")
		o := a.ownership()
		if len(o.Requests) != 1 || o.Requests[0].ID != "q1" || o.Requests[0].Args["n"] != "1" {
			g.t.Errorf("adopted with requests %+v, want q1", o.Requests)
		}
		g.ask("q3", zkrec.Request{Kind: zkrec.RequestRun})
		g.ask("q2", zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"})
		pass(100 * time.Millisecond)
		if ids := a.ids(); !slices.Equal(ids, []string{"q1", "q2", "q3"}) {
			g.t.Errorf("reported %q, want q1, q2 and q3", ids)
		}
		a.Drop("job", "q2")
		a.Drop("job", "never was")
		pass(100 * time.Millisecond)
		g.wantRequests("q1", "q3")
	})
}

func TestManualRunAndItsResult(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1"))
		pass(syncPeriod)
		g.wantRequests("q1")
		c := outcome(claimed, zkrec.RunOK)
		c.Plan.Request = "q1"
		g.wantRecords(a.mustCommit(c), "r1 ok")
		pass(2 * syncPeriod)
		g.wantRequests()
	})
}

func TestCanceledRequestOpensNoRun(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		if _, err := a.Commit(manualClaim(o, o.Record, "r1")); !errors.Is(err, ticks.ErrNoRequest) {
			g.t.Errorf("Commit = %v, want ticks.ErrNoRequest", err)
		}
		g.wantRecords(zkrec.Tick{})
		a.mustCommit(claim(o, o.Record, "r2", 60)) // nothing is stuck
	})
}

// The request guards the start of its run and nothing after that.
func TestRequestIsCanceledDuringItsRun(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1"))
		g.remove(g.tree.Request("job", "q1"))
		skipped := commit(o, claimed, claimed)
		skipped.Plan.Record.Watermark = 120
		skipped.Plan.Entries = []zkrec.Entry{{Run: zkrec.Run{Tick: 120, State: zkrec.TickSkipped}}}
		c := outcome(a.mustCommit(skipped), zkrec.RunOK)
		c.Plan.Request = "q1"
		g.wantRecords(a.mustCommit(c), " skipped", "r1 ok")
	})
}

// The request that the result is to remove was deleted manually.
func TestRequestIsGoneWhenTheResultIsWritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		o := a.ownership()
		c := outcome(a.mustCommit(manualClaim(o, o.Record, "r1")), zkrec.RunOK)
		c.Plan.Request = "q1"
		g.remove(g.tree.Request("job", "q1"))
		g.wantRecords(a.mustCommit(c), "r1 ok")
	})
}

// The request that the result is to remove cannot be removed: the result is written nevertheless, and the request is
// not run a second time.
func TestRequestStaysWhenTheResultIsWritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		o := a.ownership()
		c := outcome(a.mustCommit(manualClaim(o, o.Record, "r1")), zkrec.RunOK)
		c.Plan.Request = "q1"
		g.create(g.tree.Request("job", "q1")+"/note", "")
		g.wantRecords(a.mustCommit(c), "r1 ok")
		if text := a.log.String(); !strings.Contains(text, "request=q1") {
			g.t.Errorf("log %q, want it to name the request", text)
		}
		g.ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
		pass(2 * syncPeriod)
		g.wantRequests("q1", "q2")
		if ids := a.ids(); !slices.Equal(ids, []string{"q2"}) {
			g.t.Errorf("requests %q, want q2", ids)
		}
	})
}

// A run that is to be repeated still needs its request.
func TestRequestIsCanceledBeforeTheSecondAttempt(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1"))
		g.remove(g.tree.Request("job", "q1"))
		if _, err := a.Commit(manualClaim(o, claimed, "r2")); !errors.Is(err, ticks.ErrNoRequest) {
			g.t.Errorf("Commit = %v, want ticks.ErrNoRequest", err)
		}
	})
}

func TestUnreadableRequestIsIgnored(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.create(g.tree.Request("job", "q0"), "garbage")
		g.create(g.tree.Request("job", "q1"), `{"schema":99,"kind":"run"}`)
		g.ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a")
		a.ownership()
		pass(10 * syncPeriod)
		if ids := a.ids(); !slices.Equal(ids, []string{"q2"}) {
			g.t.Errorf("requests %q, want q2", ids)
		}
		if n := strings.Count(a.log.String(), "request ignored: it cannot be read"); n != 2 {
			g.t.Errorf("logged %d times, want once for each:\n%s", n, a.log)
		}
		g.remove(g.tree.Request("job", "q0"))
		pass(syncPeriod)
		g.ask("q0", zkrec.Request{Kind: zkrec.RequestRun})
		pass(2 * syncPeriod)
		if ids := a.ids(); !slices.Equal(ids, []string{"q0", "q2"}) {
			g.t.Errorf("requests %q, want the new q0, too", ids)
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
			inGroup(t, func(g *group) {
				g.submit("job")
				g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
				g.ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
				g.server.ControlKeep(test.op, func(r *zkdev.Request) zkdev.Action {
					if r.Client == "a" && r.Path == test.path {
						return zkdev.Refuse(zkdev.NoAuth)
					}
					return zkdev.Pass()
				})
				a := g.join("a")
				a.ownership()
				pass(10 * syncPeriod)
				if ids := a.ids(); !slices.Equal(ids, test.want) {
					g.t.Errorf("requests %q, want %q", ids, test.want)
				}
				if n := strings.Count(a.log.String(), "cannot be read"); n != 1 {
					g.t.Errorf("logged %d times, want once:\n%s", n, a.log)
				}
			})
		})
	}
}

// A request whose removal failed is reported again, so that it is removed eventually.
func TestFailedDropIsReportedAgain(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		g.ask("q1", zkrec.Request{Kind: zkrec.RequestStop, RunID: "over"})
		a := g.join("a")
		a.ownership()
		g.onMulti("/q1", zkdev.CutBefore())
		a.mu.Lock()
		a.requested = 0
		a.mu.Unlock()
		a.Drop("job", "q1")
		pass(3 * syncPeriod)
		a.mu.Lock()
		told := a.requested
		a.mu.Unlock()
		if told != 1 {
			g.t.Errorf("reported %d times after the failure, want once", told)
		}
		g.wantRequests("q1")
		a.Drop("job", "q1")
		pass(syncPeriod)
		g.wantRequests()
	})
}

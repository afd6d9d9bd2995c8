package coord

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ask makes a request as an operator does.
func (g *group) ask(job, id string, r zkrec.Request) {
	g.t.Helper()
	r.At = time.Now()
	g.multi(zkconn.CreateOp(g.tree.Request(job, id), r.Encode()))
}

func (g *group) remove(path string) {
	g.t.Helper()
	g.multi(zkconn.DeleteOp(path, zkconn.AnyVersion))
}

// wantRequests expects these requests to be there.
func (g *group) wantRequests(job string, want ...string) {
	g.t.Helper()
	names, _, err := g.hand.Children(g.t.Context(), g.tree.Requests(job))
	slices.Sort(names)
	if err != nil || !slices.Equal(names, want) {
		g.t.Errorf("requests %q (%v) are there, want %q", names, err, want)
	}
}

// manualClaim is a commit that opens a manual run.
func manualClaim(o Ownership, from zkrec.Tick, id, request string) Commit {
	c := claim(o, from, id, 60)
	c.To.Manual = request
	return c
}

func TestRequestsAreToldInTheirOrder(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestRun, Args: map[string]string{"n": "1"}})
		a := g.join("a", nil)
		o := a.ownership("job")
		if len(o.Requests) != 1 || o.Requests[0].ID != "q1" || o.Requests[0].Args["n"] != "1" {
			t.Errorf("adopted with requests %+v, want q1", o.Requests)
		}
		g.ask("job", "q3", zkrec.Request{Kind: zkrec.RequestRun})
		g.ask("job", "q2", zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"})
		pass(100 * time.Millisecond)
		if ids := a.ids("job"); !slices.Equal(ids, []string{"q1", "q2", "q3"}) {
			t.Errorf("told of %q, want q1, q2 and q3", ids)
		}
		a.Drop("job", "q2")
		a.Drop("job", "never was")
		pass(100 * time.Millisecond)
		g.wantRequests("job", "q1", "q3")
	})
}

func TestManualRunAndItsResult(t *testing.T) {
	inGroup(t, func(_ *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1", "q1"))
		pass(syncPeriod)
		g.wantRequests("job", "q1")
		c := outcome("job", claimed, zkrec.RunOK)
		c.Request = "q1"
		g.wantRecords("job", a.mustCommit(c), "r1 ok")
		pass(2 * syncPeriod)
		g.wantRequests("job")
	})
}

func TestWithdrawnRequestOpensNoRun(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		if _, err := a.Commit(manualClaim(o, o.Record, "r1", "q1")); !errors.Is(err, ErrNoRequest) {
			t.Errorf("Commit = %v, want ErrNoRequest", err)
		}
		g.wantRecords("job", zkrec.Tick{})
		a.mustCommit(claim(o, o.Record, "r2", 60)) // nothing is stuck
	})
}

// The request guards the beginning of its run and nothing after that.
func TestRequestIsWithdrawnDuringItsRun(t *testing.T) {
	inGroup(t, func(_ *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1", "q1"))
		g.remove(g.tree.Request("job", "q1"))
		skipped := Commit{Job: "job", Token: o.Grant.Token, From: claimed, To: claimed}
		skipped.To.Through = 120
		skipped.Entries = []zkrec.Entry{{Run: zkrec.Run{Tick: 120, State: zkrec.TickSkipped}}}
		c := outcome("job", a.mustCommit(skipped), zkrec.RunOK)
		c.Request = "q1"
		g.wantRecords("job", a.mustCommit(c), " skipped", "r1 ok")
	})
}

// What the result is to remove was removed by a hand.
func TestRequestIsGoneWhenTheResultIsWritten(t *testing.T) {
	inGroup(t, func(_ *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a", nil)
		o := a.ownership("job")
		c := outcome("job", a.mustCommit(manualClaim(o, o.Record, "r1", "q1")), zkrec.RunOK)
		c.Request = "q1"
		g.remove(g.tree.Request("job", "q1"))
		g.wantRecords("job", a.mustCommit(c), "r1 ok")
	})
}

// A run that is to be run again needs its request still.
func TestRequestIsWithdrawnBeforeTheSecondAttempt(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(manualClaim(o, o.Record, "r1", "q1"))
		g.remove(g.tree.Request("job", "q1"))
		if _, err := a.Commit(manualClaim(o, claimed, "r2", "q1")); !errors.Is(err, ErrNoRequest) {
			t.Errorf("Commit = %v, want ErrNoRequest", err)
		}
	})
}

func TestUnreadableRequestIsIgnored(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		g.create(g.tree.Request("job", "q0"), "garbage")
		g.create(g.tree.Request("job", "q1"), `{"schema":99,"kind":"run"}`)
		g.ask("job", "q2", zkrec.Request{Kind: zkrec.RequestRun})
		a := g.join("a", nil)
		a.ownership("job")
		pass(10 * syncPeriod)
		if ids := a.ids("job"); !slices.Equal(ids, []string{"q2"}) {
			t.Errorf("requests %q, want q2", ids)
		}
		if n := strings.Count(a.log.String(), "request is not readable"); n != 2 {
			t.Errorf("logged %d times, want once for each:\n%s", n, a.log)
		}
		g.remove(g.tree.Request("job", "q0"))
		pass(syncPeriod)
		g.ask("job", "q0", zkrec.Request{Kind: zkrec.RequestRun})
		pass(2 * syncPeriod)
		if ids := a.ids("job"); !slices.Equal(ids, []string{"q0", "q2"}) {
			t.Errorf("requests %q, want the new q0, too", ids)
		}
	})
}

// A request whose removal failed is told again, so that it is removed in the end.
func TestDropThatFailsIsToldAgain(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		g.ask("job", "q1", zkrec.Request{Kind: zkrec.RequestStop, RunID: "over"})
		a := g.join("a", nil)
		a.ownership("job")
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
			t.Errorf("told %d times after the failure, want once", told)
		}
		g.wantRequests("job", "q1")
		a.Drop("job", "q1")
		pass(syncPeriod)
		g.wantRequests("job")
	})
}

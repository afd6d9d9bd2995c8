package journal_test

import (
	"errors"
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

// ownBackfill starts an owner of a job whose ticks of 10, 20 and 30 ms are asked for.
func ownBackfill(g *roomtest.Group) (*roomtest.Rooms, journal.Ownership) {
	g.T.Helper()
	g.Submit("job")
	all := zkrec.Request{Kind: zkrec.RequestBackfill, By: "ann"}
	for _, at := range []int64{10, 20, 30} {
		all.Backfill.Add(zkrec.Request{Tick: at, Past: history.PastMissed, Attempt: 1})
	}
	g.Ask("q1", all)
	a := start(g, "a")
	return a, a.Ownership()
}

// nextClaim is a commit that opens the run of the next tick of the backfill q1, as it is known.
func nextClaim(g *roomtest.Group, a *roomtest.Rooms, o journal.Ownership, from zkrec.Tick, id string) ticks.Commit {
	g.T.Helper()
	a.Lock()
	known := a.Owned["job"].Requests
	a.Unlock()
	i := slices.IndexFunc(known, func(r ticks.Request) bool { return r.ID == "q1" })
	if i < 0 {
		g.T.Fatalf("the backfill is not known: %+v", known)
	}
	next, _ := known[i].Next()
	c := roomtest.Claim(o, from, id, 60)
	run := next.Run(next.ID)
	run.RunID, run.SID, run.Token, run.Started, run.State = id, "a", o.Lease.Token, 60, history.StateRunning
	c.Plan.Record.Run, c.Plan.Backfill = run, &known[i]
	return c
}

// TestBackfillClaims: a claim makes the request of its tick, and takes the tick off the backfill,
// in one transaction. The owner knows both at once, also if the answer was lost.
func TestBackfillClaims(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]zkdev.Action{"answered": zkdev.Pass(), "not made": zkdev.CutBefore(), "answer lost": zkdev.CutAfter()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a, o := ownBackfill(g)
				record := *o.Record
				for k, want := range [][]string{{"q1", "q1.00001"}, {"q1", "q1.00002"}, {"q1.00003"}} {
					g.OnMulti("/tick", lost)
					record = a.MustCommit(nextClaim(g, a, o, record, "r"+string(rune('1'+k))))
					roomtest.Pass(2 * time.Second)
					wantRequests(g, want...)
					if ids := a.Requests(); k < 2 && !slices.Equal(ids, want) { // after the last one the runner knows it
						g.T.Errorf("after claim %d the owner knows %q, want %q", k+1, ids, want)
					}
					end := roomtest.Outcome(record, history.StateOK)
					end.Plan.Request = record.Manual
					record = a.MustCommit(end)
				}
				roomtest.Pass(roomtest.SyncPeriod)
				wantRequests(g)
				g.WantRecords(record, "r1 ok", "r2 ok", "r3 ok")
			})
		})
	}
}

// A backfill that was stopped, or of which another has taken the tick, is claimed no more as it was
// known, and the owner reads how it is.
func TestBackfillThatHasChanged(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := ownBackfill(g)
		data, _, _ := g.Get(g.Tree.Request("job", "q1"))
		all, err := zkrec.ParseRequest(data)
		if err != nil {
			g.T.Fatal(err)
		}
		_, _, rest := all.Next("q1")
		old := nextClaim(g, a, o, *o.Record, "r1")
		g.Set(g.Tree.Request("job", "q1"), rest.Encode())
		if _, err := roomtest.Written(a.Journal, old); !errors.Is(err, ticks.ErrNoRequest) {
			g.T.Errorf("claimed what it was: %v", err)
		}
		roomtest.Pass(time.Second)
		if next := nextClaim(g, a, o, *o.Record, "r2"); next.Plan.Record.Tick != 20 {
			g.T.Errorf("it reads %+v", next.Plan.Record)
		}
		stopped := nextClaim(g, a, o, *o.Record, "r2")
		g.Remove(g.Tree.Request("job", "q1"))
		if _, err := roomtest.Written(a.Journal, stopped); !errors.Is(err, ticks.ErrNoRequest) {
			g.T.Errorf("claimed what was stopped: %v", err)
		}
		roomtest.Pass(roomtest.SyncPeriod)
		wantRequests(g)
	})
}

// A request that stands in the place of the next one stops the backfill, and is named in the log,
// once.
func TestBackfillInTheWay(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := ownBackfill(g)
		g.Create(g.Tree.Request("job", "q1.00001"), "hand")
		if _, err := roomtest.Written(a.Journal, nextClaim(g, a, o, *o.Record, "r1")); !errors.Is(err, ticks.ErrNoRequest) {
			g.T.Errorf("claimed: %v", err)
		}
		roomtest.Pass(roomtest.SyncPeriod)
		wantRequests(g, "q1", "q1.00001")
		if n := strings.Count(a.Log.String(), "somebody has made the request for its next tick"); n != 1 {
			g.T.Errorf("logged %d times:\n%s", n, a.Log)
		}
	})
}

// A list of requests that was on its way when a claim was made does not have the one that the claim
// has made. The owner knows it nevertheless: without it, a run that is interrupted would not be
// repeated. Which of the two is there first differs from try to try.
func TestBackfillAndAnOldList(t *testing.T) {
	t.Parallel()
	for range 10 {
		roomtest.InGroup(t, func(g *roomtest.Group) {
			a, o := ownBackfill(g)
			g.Server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
				if strings.HasSuffix(r.Path, "/requests") {
					return zkdev.DelayReply(time.Second)
				}
				return zkdev.Pass()
			})
			g.Ask("q0", zkrec.Request{Kind: zkrec.RequestRun})
			roomtest.Pass(500 * time.Millisecond)
			a.MustCommit(nextClaim(g, a, o, *o.Record, "r1"))
			a.Lock()
			a.Announced = 0
			a.Unlock()
			roomtest.Pass(200 * time.Millisecond)
			ids := a.Requests()
			a.Lock()
			defer a.Unlock()
			if a.Announced > 0 && !slices.Contains(ids, "q1.00001") {
				g.T.Errorf("reported %q", ids)
			}
		})
	}
}

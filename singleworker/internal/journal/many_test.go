package journal_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// reads counts the requests of instance a that read records or requests of slots.
func reads(g *roomtest.Group) *atomic.Int64 {
	n := new(atomic.Int64)
	isOurs := func(r zkdev.Request) bool {
		name := r.Path[strings.LastIndex(r.Path, "/")+1:]
		return name == "tick" || name == "history" || name == "requests"
	}
	g.Server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		isRead := r.Op == zkdev.OpMultiRead || r.Op == zkdev.OpSetWatches || r.Op == zkdev.OpGetData || r.Op == zkdev.OpGetChildren2
		if r.Client == "a" && isRead && (isOurs(*r) || slices.ContainsFunc(r.Ops, isOurs)) {
			n.Add(1)
		}
		return zkdev.Pass()
	})
	return n
}

// Many slots that are gained at once, or read again after a reconnect, are read in few requests.
func TestManySlotsAreReadInFewRequests(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		const jobs = 1000
		for k := range jobs {
			g.Submit(fmt.Sprintf("job-%04d", k))
		}
		requests := reads(g)
		a := start(g, "a")
		roomtest.Pass(20 * roomtest.SyncPeriod)
		a.Lock()
		if len(a.Owned) != jobs {
			g.T.Errorf("%d of %d jobs are owned", len(a.Owned), jobs)
		}
		a.Unlock()
		if requests.Load() > 40 {
			g.T.Errorf("%d requests for three nodes of each of %d jobs, want at most 40", requests.Load(), jobs)
		}
		requests.Store(0)
		a.Client.Disconnect()
		roomtest.Pass(5 * roomtest.SyncPeriod)
		if n := requests.Load(); n == 0 || n > 20 {
			g.T.Errorf("%d requests after the reconnect, want some, but at most 20", n)
		}
	})
}

// The watches of requests end with the connection, and are set again in the next.
func TestRequestsAfterAReconnect(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(g *roomtest.Group, a *roomtest.Rooms){
		"while nothing is read": func(_ *roomtest.Group, a *roomtest.Rooms) { a.Client.Disconnect() },
		"while they are read": func(g *roomtest.Group, _ *roomtest.Rooms) {
			g.Server.Control(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
				if r.Client == "a" {
					return zkdev.CutAfter()
				}
				return zkdev.Pass()
			})
			g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, "a")
				a.Ownership()
				lose(g, a)
				roomtest.Pass(3 * roomtest.SyncPeriod)
				g.Ask("q2", zkrec.Request{Kind: zkrec.RequestRun})
				roomtest.Pass(100 * time.Millisecond)
				if ids := a.Requests(); !slices.Contains(ids, "q2") {
					g.T.Errorf("requests %q, want q2, too", ids)
				}
			})
		})
	}
}

package journal_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// listings counts the lists of requests that an instance has read since the last call, by slot.
func listings(g *roomtest.Group, client string) func() map[string]int {
	return g.Reads(client, zkdev.OpGetChildren, g.Tree.Requests)
}

// ask makes a request for a job, and sets the signal of an instance to each text of told.
func ask(g *roomtest.Group, job, id string, told ...string) {
	g.T.Helper()
	ops := []zkconn.Op{zkconn.CreateOp(g.Tree.Request(job, id), zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"}.Encode())}
	for _, about := range told {
		ops = append(ops, zkconn.SetOp(g.Tree.AskedOf("a-1"), []byte(about), zkconn.AnyVersion))
	}
	g.Multi(ops...)
	roomtest.Pass(time.Millisecond)
}

// The requests of the slots that a signal names are read, and the requests of all owned slots if it
// may have told of others.
func TestWhatTheSignalOfRequestsTells(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		told []string
		want map[string]int
	}{
		"a slot":             {[]string{"job"}, map[string]int{"job": 1}},
		"two slots":          {[]string{"job\nother"}, map[string]int{"job": 1, "other": 1}},
		"two times at once":  {[]string{"other", "job"}, map[string]int{"job": 1, "other": 1, "third": 1}},
		"no slot":            {[]string{""}, map[string]int{"job": 1, "other": 1, "third": 1}},
		"one that is not it": {[]string{"job-2"}, map[string]int{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				for _, job := range []string{"job", "other", "third"} {
					g.Submit(job)
				}
				start(g, "a")
				roomtest.Pass(2 * roomtest.SyncPeriod)
				read := listings(g, "a")
				ask(g, "job", "q1", test.told...)
				if got := read(); !maps.Equal(got, test.want) {
					g.T.Errorf("read %v, want %v", got, test.want)
				}
			})
		})
	}
}

// The signal of requests goes with the session, and may be deleted: it is made again, and requests
// that were made meanwhile are read.
func TestSignalOfRequestsIsMadeAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		a.Ownership()
		g.Multi(zkconn.DeleteOp(g.Tree.AskedOf("a-1"), zkconn.AnyVersion),
			zkconn.CreateOp(g.Tree.Request("job", "q1"), zkrec.Request{Kind: zkrec.RequestStop, RunID: "r"}.Encode()))
		roomtest.Pass(time.Millisecond)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q1"}) {
			g.T.Errorf("requests %q, want q1", ids)
		}
		ask(g, "job", "q2", "job")
		if ids := a.Requests(); !slices.Equal(ids, []string{"q1", "q2"}) {
			g.T.Errorf("requests %q, want both", ids)
		}
	})
}

// A request of somebody who tells nobody is seen within 60 sync periods.
func TestRequestOfWhichNobodyTells(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		a.Ownership()
		roomtest.Pass(2 * roomtest.SyncPeriod)
		ask(g, "job", "q1")
		roomtest.Pass(20 * roomtest.SyncPeriod)
		if ids := a.Requests(); len(ids) > 0 {
			g.T.Errorf("requests %q although nobody told: this test shows nothing", ids)
		}
		roomtest.Pass(42 * roomtest.SyncPeriod)
		if ids := a.Requests(); !slices.Equal(ids, []string{"q1"}) {
			g.T.Errorf("requests %q, want q1", ids)
		}
	})
}

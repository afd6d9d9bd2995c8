package journal_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A record that becomes garbage while the job is owned is not overwritten: no run starts until it
// is repaired, here by emptying it.
func TestTickRecordBecomesGarbage(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		g.Set(g.Tree.Tick("job"), []byte("garbage"))
		for _, id := range []string{"r1", "r2"} {
			if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, id, 60)); !errors.As(err, new(*zkrec.UnreadableError)) {
				g.T.Fatalf("Commit = %v, want that the record cannot be read", err)
			}
		}
		if data, _, _ := g.Get(g.Tree.Tick("job")); string(data) != "garbage" {
			g.T.Errorf("the record was replaced by %s", data)
		}
		if n := strings.Count(a.Log.String(), "job invalid"); n != 1 {
			g.T.Errorf("logged %d times, want once:\n%s", n, a.Log)
		}
		g.Set(g.Tree.Tick("job"), nil)
		current, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r3", 60))
		if !errors.Is(err, ticks.ErrConflict) {
			g.T.Fatalf("Commit = %+v, %v; want a conflict", current, err)
		}
		g.WantRecords(a.MustCommit(roomtest.Claim(o, current, "r4", current.Watermark+1000)))
	})
}

// Records written by a newer version are not touched.
func TestRecordsOfANewerVersion(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("tick")
		g.Submit("history")
		const newer = `{"schema":99,"entries":[]}`
		g.Set(g.Tree.Tick("tick"), []byte(newer))
		g.Set(g.Tree.History("history"), []byte(newer))
		a := start(g, "a")
		roomtest.Pass(10 * time.Second)
		if len(a.Owned) != 0 {
			g.T.Errorf("runs %v, want none of them", a.Owned)
		}
		for _, job := range []string{"tick", "history"} {
			if text := a.Log.String(); !strings.Contains(text, "job="+job) {
				g.T.Errorf("log %q, want it to name %s", text, job)
			}
		}
		if data, _, _ := g.Get(g.Tree.Tick("tick")); string(data) != newer {
			g.T.Errorf("the tick node is now %s", data)
		}
	})
}

// The owner of a job whose record it cannot read does not run it, logs the path once, leaves the
// record as it is, and runs the job when it is repaired.
func TestRecordBecomesReadable(t *testing.T) {
	t.Parallel()
	const newer = `{"schema":99,"entries":[]}`
	for what, broken := range map[string]struct{ node, data string }{
		"tick of a newer version": {"/tick", newer}, "history of a newer version": {"/history", newer},
		"tick": {"/tick", "{garbage"}, "history": {"/history", "garbage"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				path := g.Tree.Job("job") + broken.node
				g.Set(path, []byte(broken.data))
				var reads atomic.Int32
				g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
					if r.Client == "a" && r.Path == path {
						reads.Add(1)
					}
					return zkdev.Pass()
				})
				a := start(g, "a")
				roomtest.Pass(20 * roomtest.SyncPeriod)
				if n := strings.Count(a.Log.String(), "path="+path); n != 1 {
					g.T.Errorf("logged %d times, want once:\n%s", n, a.Log)
				}
				a.Lock()
				if len(a.Owned) > 0 {
					g.T.Errorf("run: %v, want nothing", a.Owned)
				}
				a.Unlock()
				if data, _, _ := g.Get(path); string(data) != broken.data {
					g.T.Errorf("the node is now %s", data)
				}
				if n := reads.Load(); n > 90 { // by the owner and by its watch; a sync period is shortened by up to a half
					g.T.Errorf("read %d times in 20 sync periods", n)
				}
				g.Set(path, nil)
				roomtest.Pass(roomtest.SyncPeriod)
				a.Lock()
				o, ok := a.Owned["job"]
				a.Unlock()
				if !ok {
					g.T.Fatal("the job is not run although the record is readable again")
				}
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", o.Record.Watermark+1000))
				g.WantRecords(a.MustCommit(roomtest.Outcome(claimed, history.StateOK)), "r1 ok")
			})
		})
	}
}

// Pages that are longer than they are to be are not written again. They go in their turn.
func TestLongHistoryIsTrimmed(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		var long zkrec.Log
		for i := range 3 * zkrec.MinHistory {
			long = long.Add(3*zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{Tick: int64(i), RunID: strconv.Itoa(i), State: history.StateOK}})
		}
		for i := range zkrec.HistoryPages {
			page := g.Tree.HistoryPage("job", i)
			if i > 0 {
				g.Create(page, "")
			}
			g.Set(page, long.Encode(i))
		}
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		if _, entries := g.Records(); len(entries) != 3*zkrec.MinHistory {
			g.T.Errorf("%d entries, want them as they were: a claim writes no history", len(entries))
		}
		a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		_, entries := g.Records()
		if n := len(entries); n != 3*zkrec.MinHistory+1 || entries[n-1].RunID != "r1" {
			g.T.Errorf("%d entries, the last of %s; want what there was, and r1 on a new page", n, entries[n-1].RunID)
		}
		for k := range zkrec.MinHistory {
			a.Runs(int64(100 + k))
		}
		if _, entries = g.Records(); len(entries) != zkrec.MinHistory+1 || entries[0].RunID != "r1" {
			g.T.Errorf("%d entries, the first of %s; want r1 and those after it", len(entries), entries[0].RunID)
		}
	})
}

// The owner adds missing nodes to a job that an older version created or someone damaged.
func TestMissingNodesAreCreated(t *testing.T) {
	t.Parallel()
	tree := zkrec.NewTree("group")
	for what, missing := range map[string][]string{
		"as an older version creates it": {tree.History("job"), tree.Requests("job")},
		"no tick":                        {tree.Tick("job")},
		"no history":                     {tree.History("job")},
		"no requests":                    {tree.Requests("job")},
		"nothing":                        {tree.Register("job"), tree.Alive("job"), tree.Tick("job"), tree.History("job"), tree.Requests("job")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job", missing...)
				a := start(g, "a")
				o := a.Ownership()
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
				roomtest.Pass(2 * roomtest.SyncPeriod)
				for _, node := range missing {
					if _, _, ok := g.Get(node); !ok {
						g.T.Errorf("%s is not there", node)
					}
				}
				g.WantRecords(a.MustCommit(roomtest.Outcome(claimed, history.StateOK)), "r1 ok")
				g.Ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
				roomtest.Pass(100 * time.Millisecond) // by a watch, not by a sync
				if ids := a.Requests(); !slices.Equal(ids, []string{"q1"}) {
					g.T.Errorf("requests %q, want q1", ids)
				}
			})
		})
	}
}

// The history is deleted while the job is owned.
func TestHistoryIsDeleted(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Remove(g.Tree.History("job"))
		g.WantRecords(a.MustCommit(roomtest.Outcome(claimed, history.StateOK)), "r1 ok")
	})
}

// Somebody writes pages of the history of an owned job: the owner reads them again, and overwrites
// nothing that it has not read.
func TestPagesThatOthersWrite(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		runs    int
		write   func(g *roomtest.Group)
		entries int // after another run
		number  int64
	}{
		"the first is emptied": {1, func(g *roomtest.Group) {
			g.Set(g.Tree.History("job"), zkrec.Emptied(zkrec.Mark{Rev: 1, Number: 1}))
		}, 1, 2},
		"the first is created again": {1, func(g *roomtest.Group) {
			g.Remove(g.Tree.History("job"))
			g.Create(g.Tree.History("job"), "")
		}, 1, 2},
		"the next one is created": {zkrec.MinHistory / (zkrec.HistoryPages - 1), func(g *roomtest.Group) {
			g.Create(g.Tree.HistoryPage("job", 1), "")
		}, zkrec.MinHistory/(zkrec.HistoryPages-1) + 1, zkrec.MinHistory/(zkrec.HistoryPages-1) + 1},
		"the next one is deleted": {zkrec.MinHistory/(zkrec.HistoryPages-1) + 1, func(g *roomtest.Group) {
			g.Remove(g.Tree.HistoryPage("job", 1))
		}, zkrec.MinHistory/(zkrec.HistoryPages-1) + 1, zkrec.MinHistory/(zkrec.HistoryPages-1) + 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, "a")
				o := a.Ownership()
				a.MustCommit(roomtest.Outcome(a.MustCommit(roomtest.Claim(o, *o.Record, "first", 60)), history.StateOK))
				for k := 1; k < c.runs; k++ {
					a.Runs(int64(60 + k))
				}
				c.write(g)
				a.Runs(1000)
				record, entries := g.Records()
				last := entries[len(entries)-1]
				if len(entries) != c.entries || last.Tick != 1000 || last.Number != c.number || record.History.Number != c.number {
					g.T.Errorf("%d entries, the last %+v, and the record says %+v; want %d, up to number %d", len(entries), last, record.History, c.entries, c.number)
				}
			})
		})
	}
}

// A claim says where the history is, also if somebody has emptied the tick record.
func TestEmptiedRecordFindsItsHistory(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		done := a.MustCommit(roomtest.Outcome(a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60)), history.StateOK))
		g.Set(g.Tree.Tick("job"), nil)
		current, err := roomtest.Written(a.Journal, roomtest.Claim(o, done, "r2", 120))
		if !errors.Is(err, ticks.ErrConflict) {
			g.T.Fatalf("Commit = %+v, %v; want a conflict", current, err)
		}
		a.MustCommit(roomtest.Claim(o, current, "r3", current.Watermark+1000))
		if record, _ := g.Records(); record.History != (zkrec.Mark{Rev: 1, Number: 1}) {
			g.T.Errorf("the record says that the history is at %+v, want the first entry", record.History)
		}
	})
}

// A page that may not be read keeps its content: nothing is added to the others until it can be
// read.
func TestPageThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		a.MustCommit(roomtest.Outcome(a.MustCommit(roomtest.Claim(o, *o.Record, "first", 60)), history.StateOK))
		for k := range zkrec.MinHistory / (zkrec.HistoryPages - 1) {
			a.Runs(int64(100 + k))
		}
		current, before := g.Records()
		page := g.Tree.HistoryPage("job", 1)
		data, _, _ := g.Get(page)
		g.Set(page, data)
		readable := g.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "a" && r.Path == page {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		claimed := a.MustCommit(roomtest.Claim(o, current, "next", 1000))
		_, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK))
		if _, entries := g.Records(); err == nil || !slices.Equal(entries, before) {
			g.T.Errorf("Commit = %v, and the history is %+v, want an error and %+v", err, entries, before)
		}
		readable()
		a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		if _, after := g.Records(); len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) {
			g.T.Errorf("the history is %+v, want one entry more than in %+v", after, before)
		}
	})
}

package coord

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A record that becomes garbage while the job is owned is not overwritten: no run starts until it is
// repaired, here by emptying it.
func TestTickRecordBecomesGarbage(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		g.set(g.tree.Tick("job"), []byte("garbage"))
		for _, id := range []string{"r1", "r2"} {
			if _, err := a.Commit(claim(o, o.Record, id, 60)); !errors.As(err, new(*zkrec.UnreadableError)) {
				g.t.Fatalf("Commit = %v, want that the record cannot be read", err)
			}
		}
		if data, _, _ := g.get(g.tree.Tick("job")); string(data) != "garbage" {
			g.t.Errorf("the record was replaced by %s", data)
		}
		if n := strings.Count(a.log.String(), "job invalid"); n != 1 {
			g.t.Errorf("logged %d times, want once:\n%s", n, a.log)
		}
		g.set(g.tree.Tick("job"), nil)
		current, err := a.Commit(claim(o, o.Record, "r3", 60))
		if !errors.Is(err, ticks.ErrConflict) {
			g.t.Fatalf("Commit = %+v, %v; want a conflict", current, err)
		}
		g.wantRecords(a.mustCommit(claim(o, current, "r4", current.Watermark+1000)))
	})
}

// A record that was emptied manually says nothing about earlier ticks; they are not run a second time.
func TestTickRecordIsEmptied(t *testing.T) {
	t.Parallel()
	for _, empty := range []string{"", `{"schema":1}`} {
		t.Run(empty, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.submit("job")
				a := g.join("a")
				o := a.ownership()
				claimed := a.mustCommit(claim(o, o.Record, "r1", time.Now().UnixMilli()))
				ended := a.mustCommit(outcome(claimed, zkrec.RunOK))
				pass(10 * time.Minute)
				emptied := time.Now().UnixMilli()
				g.set(g.tree.Tick("job"), []byte(empty))
				pass(10 * time.Second)
				current, err := a.Commit(claim(o, ended, "r2", time.Now().UnixMilli()))
				if !errors.Is(err, ticks.ErrConflict) || current.Watermark != emptied {
					g.t.Errorf("Commit = %+v, %v; want a conflict with Watermark = %d", current, err, emptied)
				}
				a.Leave()
				if err := <-a.ended; err != nil {
					g.t.Error(err)
				}
				if o := g.join("b").ownership(); o.Record.Watermark != emptied {
					g.t.Errorf("adopted with %+v, want Watermark = %d", o.Record, emptied)
				}
			})
		})
	}
}

// Records written by a newer version are not touched.
func TestRecordsOfANewerVersion(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("tick")
		g.submit("history")
		const newer = `{"schema":99,"entries":[]}`
		g.set(g.tree.Tick("tick"), []byte(newer))
		g.set(g.tree.History("history"), []byte(newer))
		a := g.join("a")
		pass(10 * time.Second)
		if len(a.owned) != 0 {
			g.t.Errorf("runs %v, want none of them", a.owned)
		}
		for _, job := range []string{"tick", "history"} {
			if text := a.log.String(); !strings.Contains(text, "job="+job) {
				g.t.Errorf("log %q, want it to name %s", text, job)
			}
		}
		if data, _, _ := g.get(g.tree.Tick("tick")); string(data) != newer {
			g.t.Errorf("the tick node is now %s", data)
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
			inGroup(t, func(g *group) {
				g.submit("job")
				path := g.tree.Job("job") + broken.node
				g.set(path, []byte(broken.data))
				var reads atomic.Int32
				g.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
					if r.Client == "a" && r.Path == path {
						reads.Add(1)
					}
					return zkdev.Pass()
				})
				a := g.join("a")
				pass(20 * syncPeriod)
				if n := strings.Count(a.log.String(), "path="+path); n != 1 {
					g.t.Errorf("logged %d times, want once:\n%s", n, a.log)
				}
				a.mu.Lock()
				if len(a.owned) > 0 {
					g.t.Errorf("run: %v, want nothing", a.owned)
				}
				a.mu.Unlock()
				if data, _, _ := g.get(path); string(data) != broken.data {
					g.t.Errorf("the node is now %s", data)
				}
				if n := reads.Load(); n > 90 { // by the owner and by its watch; a sync period is shortened by up to a half
					g.t.Errorf("read %d times in 20 sync periods", n)
				}
				g.set(path, nil)
				pass(syncPeriod)
				a.mu.Lock()
				o, ok := a.owned["job"]
				a.mu.Unlock()
				if !ok {
					g.t.Fatal("the job is not run although the record is readable again")
				}
				claimed := a.mustCommit(claim(o, o.Record, "r1", o.Record.Watermark+1000))
				g.wantRecords(a.mustCommit(outcome(claimed, zkrec.RunOK)), "r1 ok")
			})
		})
	}
}

func TestLongHistoryIsTrimmed(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		var long zkrec.History
		for i := range 3 * zkrec.MaxHistory {
			long.Entries = append(long.Entries, zkrec.Entry{Run: zkrec.Run{Tick: int64(i), RunID: strconv.Itoa(i), State: zkrec.RunOK}})
		}
		g.set(g.tree.History("job"), long.Encode())
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		if _, entries := g.records(); len(entries) != 3*zkrec.MaxHistory {
			g.t.Errorf("%d entries, want them as they were: a claim writes no history", len(entries))
		}
		a.mustCommit(outcome(claimed, zkrec.RunOK))
		_, entries := g.records()
		if n := len(entries); n != zkrec.MaxHistory || entries[0].RunID != "41" || entries[n-1].RunID != "r1" {
			g.t.Errorf("%d entries, from %s to %s; want %d, from 41 to r1", n, entries[0].RunID, entries[n-1].RunID, zkrec.MaxHistory)
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
			inGroup(t, func(g *group) {
				g.submit("job", missing...)
				a := g.join("a")
				o := a.ownership()
				claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
				pass(2 * syncPeriod)
				for _, node := range missing {
					if _, _, ok := g.get(node); !ok {
						g.t.Errorf("%s is not there", node)
					}
				}
				g.wantRecords(a.mustCommit(outcome(claimed, zkrec.RunOK)), "r1 ok")
				g.ask("q1", zkrec.Request{Kind: zkrec.RequestRun})
				pass(100 * time.Millisecond) // by a watch, not by a sync
				if ids := a.ids(); !slices.Equal(ids, []string{"q1"}) {
					g.t.Errorf("requests %q, want q1", ids)
				}
			})
		})
	}
}

// The history is deleted while the job is owned.
func TestHistoryIsDeleted(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.remove(g.tree.History("job"))
		g.wantRecords(a.mustCommit(outcome(claimed, zkrec.RunOK)), "r1 ok")
	})
}

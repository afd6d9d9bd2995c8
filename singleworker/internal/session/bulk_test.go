package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// bulkReads records how many reads each bulk request of instance a has.
func bulkReads(g *roomtest.Group) *[]int {
	var sent []int
	g.Server.ControlKeep(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
		if r.Client == "a" {
			sent = append(sent, len(r.Ops))
		}
		return zkdev.Pass()
	})
	return &sent
}

// nodes creates nodes and returns the reads of them.
func nodes(g *roomtest.Group, l *roomtest.Loop, name string, n int) []zkconn.Read {
	g.T.Helper()
	reads := make([]zkconn.Read, n)
	ops := make([]zkconn.Op, n)
	for i := range n {
		reads[i] = zkconn.Read{Path: fmt.Sprintf("%s/%s-%d", g.Tree.Root(), name, i)}
		ops[i] = zkconn.CreateOp(reads[i].Path, []byte(reads[i].Path))
	}
	if _, err := l.Conn.Multi(g.T.Context(), ops...); err != nil {
		g.T.Fatal(err)
	}
	return reads
}

// Everything that a turn reads travels together, and each caller gets its own results.
func TestReadsOfATurnTravelTogether(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		l.Do(func() {})
		sent := bulkReads(g)
		reads := nodes(g, l, "node", 300)
		var done []int
		check := func(from, to int) func([]zkconn.ReadResult) {
			return func(results []zkconn.ReadResult) {
				done = append(done, to-from)
				for i, r := range results {
					if string(r.Data) != reads[from+i].Path || r.Err != nil {
						t.Errorf("reading %d of those from %d: %q, %v", i, from, r.Data, r.Err)
					}
				}
				if len(results) != to-from {
					t.Errorf("%d results, want %d", len(results), to-from)
				}
			}
		}
		l.Do(func() {
			l.Read(nil, check(0, 0))
			l.Read(reads[:1], check(0, 1))
			l.Read(reads[1:299], check(1, 299))
			l.Read(reads[299:], check(299, 300))
			l.Read([]zkconn.Read{{Path: "/none"}}, func(results []zkconn.ReadResult) {
				if len(results) != 1 || results[0].Err == nil {
					t.Errorf("a node that does not exist: %+v", results)
				}
			})
		})
		l.Do(func() {})
		slices.Sort(*sent) // requests of one turn overtake each other
		slices.Sort(done)
		if want := []int{45, 256}; !slices.Equal(*sent, want) {
			t.Errorf("reads of each request: %d, want %d", *sent, want)
		}
		if want := []int{0, 1, 1, 298}; !slices.Equal(done, want) {
			t.Errorf("answered: those with %d reads, want %d", done, want)
		}
	})
}

// The instance is in another connection before its reads are taken in, though they were answered:
// the watches have ended.
func TestReadingIsTakenInTooLate(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]bool{"in time": false, "too late": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				l := g.NewLoop("a")
				l.Start()
				l.Do(func() {})
				reads := nodes(g, l, "node", 2)
				reads[0].Watch = true
				g.Server.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.DelayReply(time.Second) })
				var got []zkconn.ReadResult
				l.Do(func() { l.Read(reads, func(results []zkconn.ReadResult) { got = results }) })
				if late {
					l.Hear(zkconn.Event{Kind: zkconn.Connected})
				}
				roomtest.Pass(2 * time.Second)
				if len(got) != 2 || errors.Is(got[0].Err, zkconn.ErrLost) != late || got[1].Err != nil || string(got[1].Data) != reads[1].Path {
					t.Errorf("read %+v; want the watched one lost: %v, and the other one", got, late)
				}
			})
		})
	}
}

// Few requests for reads are under way, so that a write does not wait behind thousands of them.
func TestReadsKeepNoWriteWaiting(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		l.Do(func() {})
		reads := slices.Repeat(nodes(g, l, "node", 100), 100)
		var sent []string
		g.Server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			switch {
			case r.Client != "a" || r.Op == zkdev.OpPing:
				return zkdev.Pass()
			case r.Op == zkdev.OpMultiRead:
				sent = append(sent, "reads")
				return zkdev.DelayReply(10 * time.Millisecond)
			default:
				sent = append(sent, r.Op.String())
				return zkdev.Pass()
			}
		})
		answered := 0
		l.Do(func() { l.Read(reads, func(results []zkconn.ReadResult) { answered = len(results) }) })
		l.Do(func() {
			l.Write(session.Beats, []zkconn.Op{zkconn.CreateOp(g.Tree.Root()+"/late", nil)}, func(session.Result) {})
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if answered != len(reads) {
			t.Errorf("%d of %d reads were answered", answered, len(reads))
		}
		if want := slices.Index(sent, "multi"); want < 0 || want > 8 || len(sent) != 41 {
			t.Errorf("%d requests, want 41, and the write among the first: %s", len(sent), strings.Join(sent, " "))
		}
	})
}

// Few of many requests are under way.
func TestTogetherIsBounded(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		l := g.NewLoop("a")
		l.Start()
		l.Do(func() {})
		var underWay, most, all atomic.Int64
		seen := make([]atomic.Int64, 1000)
		l.Do(func() {
			l.Async("requests", func(context.Context) func() {
				session.Together(len(seen), func(i int) {
					most.Store(max(most.Load(), underWay.Add(1)))
					time.Sleep(time.Second)
					underWay.Add(-1)
					seen[i].Add(1)
					all.Add(1)
				})
				return func() {}
			})
		})
		synctest.Wait()
		if n := underWay.Load(); n != 32 {
			t.Errorf("%d requests are under way, want 32", n)
		}
		time.Sleep(time.Minute + 30*time.Second)
		synctest.Wait()
		if most.Load() > 32 || all.Load() != int64(len(seen)) {
			t.Errorf("%d requests, %d at once; want %d, 32 at once", all.Load(), most.Load(), len(seen))
		}
		for i := range seen {
			if n := seen[i].Load(); n != 1 {
				t.Errorf("request %d was made %d times", i, n)
			}
		}
	})
}

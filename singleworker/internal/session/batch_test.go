package session

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestFittingCountsGroupsAndBytes(t *testing.T) {
	t.Parallel()
	group := func(ops, bytes int) []zkconn.Op {
		op := zkconn.SetOp("/a", make([]byte, bytes), 1)
		return slices.Repeat([]zkconn.Op{op}, ops)
	}
	small := slices.Repeat([][]zkconn.Op{group(1, 10)}, 2*maxBatch)
	const third = maxBatchBytes/3 - 200 // with what surrounds the data
	for what, row := range map[string]struct {
		groups [][]zkconn.Op
		want   int
	}{
		"one":                             {small[:1], 1},
		"as many as fit":                  {small[:maxBatch], maxBatch},
		"one too many":                    {small[:maxBatch+1], maxBatch},
		"twice too many":                  {small, maxBatch},
		"as many bytes as fit":            {[][]zkconn.Op{group(1, third), group(1, third), group(1, third)}, 3},
		"too many bytes":                  {[][]zkconn.Op{group(1, third), group(1, third), group(1, third), group(1, third)}, 3},
		"a group counts with all its ops": {[][]zkconn.Op{group(2, third), group(2, third)}, 1},
		"one that never fits goes alone":  {[][]zkconn.Op{group(1, 2*maxBatchBytes), group(1, 1)}, 1},
	} {
		if got := fitting(row.groups, new(zkconn.Conn).Size); got != row.want {
			t.Errorf("%s: %d of %d groups, want %d", what, got, len(row.groups), row.want)
		}
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	op := zkconn.CheckOp("/a", 1)
	groups := [][]zkconn.Op{{op}, {op, op}, {op}, {op, op}}
	for _, row := range []struct {
		open          []int
		index, at, op int
	}{
		{[]int{0, 1, 2, 3}, 0, 0, 0},
		{[]int{0, 1, 2, 3}, 1, 1, 0},
		{[]int{0, 1, 2, 3}, 2, 1, 1},
		{[]int{0, 1, 2, 3}, 3, 2, 0},
		{[]int{0, 1, 2, 3}, 5, 3, 1},
		{[]int{1, 3}, 0, 0, 0}, // 0 and 2 were refused before
		{[]int{1, 3}, 1, 0, 1},
		{[]int{1, 3}, 3, 1, 1},
	} {
		if at, op := locate(groups, row.open, row.index); at != row.at || op != row.op {
			t.Errorf("operation %d of groups %v is %d of the open group %d, want %d of %d",
				row.index, row.open, op, at, row.op, row.at)
		}
	}
}

func TestOnePerTime(t *testing.T) {
	t.Parallel()
	var o OnePerTime
	if !o.Begin() {
		t.Fatal("the first may not begin")
	}
	for range 2 {
		if o.Begin() {
			t.Error("another begins while the first runs")
		}
	}
	if !o.End() {
		t.Error("what was asked for meanwhile is forgotten")
	}
	if !o.Begin() || o.End() {
		t.Error("asked for once, it is done a second time")
	}
}

// batch is what a group of operations meets at the server, by the names of the jobs.
type batch struct {
	moved, gone []string     // jobs whose tick was written, or that were deleted, meanwhile
	cut         zkdev.Action // what happens to the second transaction, instead of being answered
}

// apply sends a batch of one claim for each job to a server, and returns what became of them
// and the transactions that were sent.
func (b batch) apply(t *testing.T, jobs ...string) (results []Result, sent []string) {
	t.Helper()
	server := zkdev.Start(t, zkdev.Config{NoListen: true})
	conn, err := zkconn.Open(zkconn.Config{
		Servers: "zk1", SessionTimeout: 4 * time.Second, Dial: server.Dial, Logger: slog.New(slog.DiscardHandler),
	}, func(zkconn.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, job := range jobs {
		if !slices.Contains(b.gone, job) {
			b.create(t, conn, job, i)
		}
	}
	var mu sync.Mutex
	server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		var paths []string
		for _, op := range r.Ops {
			paths = append(paths, op.Path)
		}
		mu.Lock()
		defer mu.Unlock()
		if sent = append(sent, strings.Join(paths, " ")); len(sent) == 2 {
			return b.cut
		}
		return zkdev.Pass()
	})
	l := &Loop{Clock: leases.NewClock(), Conn: conn}
	var groups [][]zkconn.Op
	for i, job := range jobs {
		groups = append(groups, []zkconn.Op{zkconn.CheckOp("/"+job+"/alive", 1), zkconn.SetOp("/"+job+"/tick", nil, int32(i))})
	}
	results = l.apply(t.Context(), groups)
	mu.Lock()
	defer mu.Unlock()
	return results, slices.Clone(sent)
}

// create makes the nodes that the i-th claim is about: alive at version 1, and tick at version i, so
// that claims' answers can be told apart.
func (b batch) create(t *testing.T, conn *zkconn.Conn, job string, i int) {
	t.Helper()
	alive, tick := "/"+job+"/alive", "/"+job+"/tick"
	ops := []zkconn.Op{
		zkconn.CreateOp("/"+job, nil), zkconn.CreateOp(alive, nil), zkconn.SetOp(alive, nil, 0), zkconn.CreateOp(tick, nil),
	}
	for version := range int32(i) {
		ops = append(ops, zkconn.SetOp(tick, nil, version))
	}
	if slices.Contains(b.moved, job) {
		ops = append(ops, zkconn.SetOp(tick, nil, zkconn.AnyVersion))
	}
	if _, err := conn.Multi(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}

// wantStats expects the stats of the i-th claim's own two operations.
func wantStats(t *testing.T, i int, r Result) {
	t.Helper()
	if r.Err != nil || r.Refused != -1 || len(r.Stats) != 2 || r.Stats[1].Version != int32(i+1) {
		t.Errorf("group %d: %+v, want its own two stats", i, r)
	}
}

func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, sent := batch{}.apply(t, "a", "b")
		if want := []string{"/a/alive /a/tick /b/alive /b/tick"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		for i, r := range results {
			wantStats(t, i, r)
		}
	})
}

func TestRefusedGroupDoesNotKeepTheOthersBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, sent := batch{moved: []string{"b"}, gone: []string{"d"}}.apply(t, "a", "b", "c", "d")
		want := []string{
			"/a/alive /a/tick /b/alive /b/tick /c/alive /c/tick /d/alive /d/tick",
			"/a/alive /a/tick /c/alive /c/tick /d/alive /d/tick",
			"/a/alive /a/tick /c/alive /c/tick",
		}
		if !slices.Equal(sent, want) {
			t.Errorf("sent\n  %s\nwant\n  %s", strings.Join(sent, "\n  "), strings.Join(want, "\n  "))
		}
		wantStats(t, 0, results[0])
		wantStats(t, 2, results[2])
		for i, want := range map[int]struct {
			err     error
			refused int
		}{1: {zkconn.ErrBadVersion, 1}, 3: {zkconn.ErrNoNode, 0}} {
			if r := results[i]; !errors.Is(r.Err, want.err) || r.Refused != want.refused {
				t.Errorf("group %d: %v by its operation %d, want %v by %d", i, r.Err, r.Refused, want.err, want.refused)
			}
		}
	})
}

func TestTooManyRefusalsLeaveTheRestToBeReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jobs []string
		for i := range maxRefusals + 3 {
			jobs = append(jobs, strconv.Itoa(i))
		}
		results, sent := batch{gone: jobs}.apply(t, jobs...)
		if len(sent) != maxRefusals+1 {
			t.Errorf("%d transactions, want %d", len(sent), maxRefusals+1)
		}
		for i, r := range results {
			if unknown := i >= maxRefusals; zkconn.IsUnknown(r.Err) != unknown || (r.Refused == 0) == unknown {
				t.Errorf("group %d: %v by its operation %d, want it unknown: %v", i, r.Err, r.Refused, unknown)
			}
		}
	})
}

func TestLostReplyLeavesAllThatIsOpenUnknown(t *testing.T) {
	t.Parallel()
	for what, cut := range map[string]zkdev.Action{"not applied": zkdev.CutBefore(), "applied": zkdev.CutAfter()} {
		synctest.Test(t, func(t *testing.T) {
			results, sent := batch{gone: []string{"a"}, cut: cut}.apply(t, "a", "b", "c")
			if len(sent) != 2 {
				t.Errorf("%s: sent %q, want two transactions", what, sent)
			}
			if !errors.Is(results[0].Err, zkconn.ErrNoNode) {
				t.Errorf("%s: the refused group: %v, want what refused it", what, results[0].Err)
			}
			for i, r := range results[1:] {
				if !zkconn.IsUnknown(r.Err) || r.Refused != -1 || r.Stats != nil {
					t.Errorf("%s: group %d: %+v, want it unknown", what, i+1, r)
				}
			}
		})
	}
}

// Leases are counted from SentAt: it is from before the request, however late the answer is.
func TestSentAtIsBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, _ := batch{moved: []string{"b"}, cut: zkdev.DelayReply(time.Second)}.apply(t, "a", "b")
		wantStats(t, 0, results[0])
		if at := results[0].SentAt.Elapsed; at >= time.Second {
			t.Errorf("sent after %v, and answered a second later", at)
		}
	})
}

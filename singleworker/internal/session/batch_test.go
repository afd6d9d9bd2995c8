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
	"github.com/swjobs/singleworker/singleworker/internal/task"
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

func TestSameCheckIsSentOnce(t *testing.T) {
	t.Parallel()
	check := func(version int32) zkconn.Op { return zkconn.CheckOp("/a", version) }
	set := func(path string) zkconn.Op { return zkconn.SetOp(path, nil, 1) }
	for what, row := range map[string]struct {
		groups [][]zkconn.Op
		at     [][]int
	}{
		"other nodes":                {[][]zkconn.Op{{check(1), set("/b")}, {zkconn.CheckOp("/c", 1), set("/d")}}, [][]int{{0, 1}, {2, 3}}},
		"another version":            {[][]zkconn.Op{{check(1), set("/b")}, {check(2), set("/c")}}, [][]int{{0, 1}, {2, 3}}},
		"the same":                   {[][]zkconn.Op{{check(1), set("/b")}, {check(1), set("/c")}, {set("/d"), check(1)}}, [][]int{{0, 1}, {0, 2}, {3, 0}}},
		"the node changes meanwhile": {[][]zkconn.Op{{check(1)}, {set("/a")}, {check(1)}, {check(1)}}, [][]int{{0}, {1}, {2}, {2}}},
		"a check is no change":       {[][]zkconn.Op{{set("/a"), set("/a")}, {set("/a")}}, [][]int{{0, 1}, {2}}},
	} {
		tx := combine(row.groups)
		if !slices.EqualFunc(tx.at, row.at, slices.Equal[[]int]) {
			t.Errorf("%s: operations are sent at %v, want %v", what, tx.at, row.at)
		}
		for g, group := range row.groups {
			for i, op := range group {
				if sent := tx.ops[tx.at[g][i]]; sent.Path() != op.Path() {
					t.Errorf("%s: operation %d of group %d is sent for %s, want %s", what, i, g, sent.Path(), op.Path())
				}
			}
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
	shared      string       // a job whose alive every claim checks, after its own
}

// roundTrip is how long the server takes to answer each transaction.
const roundTrip = 10 * time.Millisecond

// apply sends a batch of one claim for each job to a server, and returns what became of them and, by round
// trip, the transactions that were sent, in alphabetical order.
func (b batch) apply(t *testing.T, jobs ...string) (results []Result, rounds [][]string) {
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
	start, sent := time.Now(), 0
	server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		mu.Lock()
		defer mu.Unlock()
		var paths []string
		for _, op := range r.Ops {
			paths = append(paths, op.Path)
		}
		for len(rounds) <= int(time.Since(start)/roundTrip) {
			rounds = append(rounds, nil)
		}
		last := &rounds[len(rounds)-1]
		*last = append(*last, strings.Join(paths, " "))
		slices.Sort(*last)
		if sent++; sent == 2 && b.cut != zkdev.Pass() {
			return b.cut
		}
		return zkdev.DelayReply(roundTrip)
	})
	l := &Loop{Clock: leases.NewClock(), Conn: conn, tasks: task.NewGroup(t.Context()), box: task.NewMailbox()}
	l.Server = &ServerClock{loop: l}
	var groups [][]zkconn.Op
	for i, job := range jobs {
		group := []zkconn.Op{zkconn.CheckOp("/"+job+"/alive", 1), zkconn.SetOp("/"+job+"/tick", nil, int32(i))}
		if b.shared != "" {
			group = slices.Insert(group, 1, zkconn.CheckOp(b.shared, 1))
		}
		groups = append(groups, group)
	}
	results = l.apply(t.Context(), groups, firstPieces)
	if err := l.tasks.Wait(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return results, slices.Clone(rounds)
}

// wantRounds expects transactions, by round trip.
func wantRounds(t *testing.T, got [][]string, want ...[]string) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("sent\n  %q\nwant\n  %q", got, want)
	}
}

// wantRefused expects a claim to be refused by one of its operations.
func wantRefused(t *testing.T, i int, r Result, err error, op int) {
	t.Helper()
	if !errors.Is(r.Err, err) || r.Refused != op {
		t.Errorf("group %d: %v by its operation %d, want %v by %d", i, r.Err, r.Refused, err, op)
	}
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
		results, rounds := batch{}.apply(t, "a", "b")
		wantRounds(t, rounds, []string{"/a/alive /a/tick /b/alive /b/tick"})
		for i, r := range results {
			wantStats(t, i, r)
		}
	})
}

// What was looked at before the refused group goes together again, beside what was not.
func TestRefusedGroupCostsTheOthersOneRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, rounds := batch{moved: []string{"c"}}.apply(t, "a", "b", "c", "d", "e")
		wantRounds(t, rounds,
			[]string{"/a/alive /a/tick /b/alive /b/tick /c/alive /c/tick /d/alive /d/tick /e/alive /e/tick"},
			[]string{"/a/alive /a/tick /b/alive /b/tick", "/d/alive /d/tick /e/alive /e/tick"})
		for _, i := range []int{0, 1, 3, 4} {
			wantStats(t, i, results[i])
		}
		wantRefused(t, 2, results[2], zkconn.ErrBadVersion, 1)
	})
}

// However many are refused, nothing is sent more than three times.
func TestManyRefusalsCostTwoRoundTrips(t *testing.T) {
	t.Parallel()
	for what, refused := range map[string]func(i int) bool{
		"all":          func(int) bool { return true },
		"every second": func(i int) bool { return i%2 == 0 },
		"some":         func(i int) bool { return i == 1 || i == 2 || i >= 3+firstPieces && i < 6+firstPieces },
		"the last":     func(i int) bool { return i == 3*firstPieces-1 },
	} {
		synctest.Test(t, func(t *testing.T) {
			var jobs, gone []string
			for i := range 3 * firstPieces {
				jobs = append(jobs, strconv.Itoa(i))
				if refused(i) {
					gone = append(gone, jobs[i])
				}
			}
			results, rounds := batch{gone: gone}.apply(t, jobs...)
			if len(rounds) > 3 {
				t.Errorf("%s: %d round trips, want three at most", what, len(rounds))
			}
			if n := len(slices.Concat(rounds...)); n > 1+3*firstPieces {
				t.Errorf("%s: %d transactions for %d groups", what, n, len(jobs))
			}
			for i, r := range results {
				if refused(i) {
					wantRefused(t, i, r, zkconn.ErrNoNode, 0)
				} else {
					wantStats(t, i, r)
				}
			}
		})
	}
}

func TestAnswersOfSharedChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, rounds := batch{shared: "/a/alive"}.apply(t, "a", "b", "c")
		wantRounds(t, rounds, []string{"/a/alive /a/tick /b/alive /b/tick /c/alive /c/tick"})
		for i, r := range results {
			if r.Err != nil || len(r.Stats) != 3 || r.Stats[2].Version != int32(i+1) {
				t.Errorf("group %d: %+v, want the answers to its own three operations", i, r)
			}
		}
	})
}

func TestRefusedCheckRefusesAllThatMakeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, rounds := batch{shared: "/other", moved: []string{"a"}}.apply(t, "a", "b", "c")
		wantRounds(t, rounds, []string{"/a/alive /other /a/tick /b/alive /b/tick /c/alive /c/tick"})
		for i, r := range results {
			wantRefused(t, i, r, zkconn.ErrNoNode, 1)
		}
	})
}

func TestLostReplyLeavesAllThatIsOpenUnknown(t *testing.T) {
	t.Parallel()
	for what, cut := range map[string]zkdev.Action{"not applied": zkdev.CutBefore(), "applied": zkdev.CutAfter()} {
		synctest.Test(t, func(t *testing.T) {
			results, rounds := batch{gone: []string{"a"}, cut: cut}.apply(t, "a", "b", "c")
			if len(slices.Concat(rounds...)) != 2 {
				t.Errorf("%s: sent %q, want two transactions", what, rounds)
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

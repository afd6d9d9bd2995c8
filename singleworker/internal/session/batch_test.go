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

// Only the server knows the outcome of an operation that comes after a change of its node.
func TestNodesRefuseTheFirstChange(t *testing.T) {
	t.Parallel()
	nodes := map[string]zkconn.ReadResult{"/a": {Stat: zkconn.Stat{Version: 1}}, "/b": {Err: zkconn.ErrNoNode}, "/c": {Err: zkconn.ErrDenied}}
	tx := combine([][]zkconn.Op{
		{zkconn.CheckOp("/a", 1), zkconn.CheckOp("/a", 2), zkconn.SetOp("/a", nil, 1), zkconn.SetOp("/a", nil, 2)},
		{zkconn.CreateOp("/b", nil), zkconn.DeleteOp("/b", 0), zkconn.SetOp("/c", nil, 2), zkconn.SetOp("/d", nil, 2)},
	})
	for at, err := range tx.refusals(nodes) {
		if want := at == 1; errors.Is(err, zkconn.ErrBadVersion) != want || (err != nil) != want {
			t.Errorf("operation %d is refused: %v, want %v", at, err, want)
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

// batch is the state of the server when a group of operations arrives, by the names of the jobs.
type batch struct {
	moved, gone []string     // jobs whose tick was written, or that were deleted, meanwhile
	cut         zkdev.Action // what happens to the second transaction, instead of being answered
	shared      string       // a job whose alive every claim checks, after its own
	hidden      bool         // no node may be read
}

// roundTrip is how long the server takes to answer each transaction.
const roundTrip = 10 * time.Millisecond

// apply sends a batch of one claim for each job to a server, and returns their results and, by
// round trip, the transactions and bulk reads that were sent, in alphabetical order.
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
	var nodes []zkconn.Op
	for i, job := range jobs {
		if !slices.Contains(b.gone, job) {
			nodes = append(nodes, b.create(job, i)...)
		}
	}
	if len(nodes) > 0 {
		if _, err := conn.Multi(t.Context(), nodes...); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	start, sent := time.Now(), 0
	note := func(r *zkdev.Request, paths ...string) {
		for _, op := range r.Ops {
			paths = append(paths, op.Path)
		}
		for len(rounds) <= int(time.Since(start)/roundTrip) {
			rounds = append(rounds, nil)
		}
		last := &rounds[len(rounds)-1]
		*last = append(*last, strings.Join(paths, " "))
		slices.Sort(*last)
	}
	server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		mu.Lock()
		defer mu.Unlock()
		note(r)
		if sent++; sent == 2 && b.cut != zkdev.Pass() {
			return b.cut
		}
		return zkdev.DelayReply(roundTrip)
	})
	server.ControlKeep(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
		mu.Lock()
		defer mu.Unlock()
		if note(r, "read"); b.hidden {
			return zkdev.Pass() // on to the nodes
		}
		return zkdev.DelayReply(roundTrip)
	})
	if b.hidden {
		server.ControlKeep(zkdev.OpGetData, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.NoAuth) })
	}
	l := &Loop{Clock: leases.NewClock(), Conn: conn, tasks: task.NewGroup(t.Context()), box: task.NewMailbox()}
	l.Server = &ServerClock{loop: l}
	var groups [][]zkconn.Op
	for i, job := range jobs {
		group := []zkconn.Op{zkconn.CheckOp("/"+job+"/alive", 1), zkconn.SetOp("/"+job+"/tick", nil, tickOf(i))}
		if b.shared != "" {
			group = slices.Insert(group, 1, zkconn.CheckOp(b.shared, 1))
		}
		groups = append(groups, group)
	}
	results = l.apply(t.Context(), groups, 0)
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

// tickOf is the version of the i-th tick node: the answers of neighbors can be told apart.
func tickOf(i int) int32 { return int32(i % 10) }

// create makes the nodes that the i-th claim is about: alive at version 1, and tick at its version.
func (b batch) create(job string, i int) []zkconn.Op {
	alive, tick := "/"+job+"/alive", "/"+job+"/tick"
	ops := []zkconn.Op{
		zkconn.CreateOp("/"+job, nil), zkconn.CreateOp(alive, nil), zkconn.SetOp(alive, nil, 0), zkconn.CreateOp(tick, nil),
	}
	for version := range tickOf(i) {
		ops = append(ops, zkconn.SetOp(tick, nil, version))
	}
	if slices.Contains(b.moved, job) {
		ops = append(ops, zkconn.SetOp(tick, nil, zkconn.AnyVersion))
	}
	return ops
}

// wantStats expects the stats of the i-th claim's own two operations.
func wantStats(t *testing.T, i int, r Result) {
	t.Helper()
	if r.Err != nil || r.Refused != -1 || len(r.Stats) != 2 || r.Stats[1].Version != tickOf(i)+1 {
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

// Groups that were not refused go together again.
func TestRefusedGroupCostsTheOthersOneRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, rounds := batch{moved: []string{"c"}}.apply(t, "a", "b", "c", "d", "e")
		wantRounds(t, rounds,
			[]string{"/a/alive /a/tick /b/alive /b/tick /c/alive /c/tick /d/alive /d/tick /e/alive /e/tick"},
			[]string{"/a/alive /a/tick /b/alive /b/tick /d/alive /d/tick /e/alive /e/tick"})
		for _, i := range []int{0, 1, 3, 4} {
			wantStats(t, i, results[i])
		}
		wantRefused(t, 2, results[2], zkconn.ErrBadVersion, 1)
	})
}

// A second refusal is one of many, and the nodes tell which the others are.
func TestManyRefusalsCostFewRequests(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		groups  int
		refused func(i int) bool
		gone    bool // rather than moved
		hidden  bool
		want    []int // requests, by round trip
	}{
		"none":            {groups: maxBatch, refused: func(int) bool { return false }, want: []int{1}},
		"one":             {groups: maxBatch, refused: func(i int) bool { return i == 300 }, want: []int{1, 1}},
		"twenty":          {groups: maxBatch, refused: func(i int) bool { return i%25 == 24 }, want: []int{1, 1, 4, 1}},
		"twenty are gone": {groups: maxBatch, refused: func(i int) bool { return i%25 == 24 }, gone: true, want: []int{1, 1, 4, 1}},
		"every second":    {groups: maxBatch, refused: func(i int) bool { return i%2 == 0 }, want: []int{1, 1, 4, 1}},
		"all":             {groups: maxBatch, refused: func(int) bool { return true }, want: []int{1, 1, 4}},
		"all are gone":    {groups: maxBatch, refused: func(int) bool { return true }, gone: true, want: []int{1, 1, 4}},
		"two of few":      {groups: 2 + fanOut, refused: func(i int) bool { return i < 2 }, want: []int{1, 1, fanOut}},
		// Nodes of refused groups may not be read: the rest is divided, and divided again. So it costs
		// one request for each group at most, and a few.
		"one, hidden":            {groups: maxBatch, refused: func(i int) bool { return i == 300 }, hidden: true, want: []int{1, 1}},
		"twenty, hidden":         {groups: 100, refused: func(i int) bool { return i < 20 }, hidden: true, want: []int{1, 1, 2, 8, 12, 8}},
		"twenty of many, hidden": {groups: maxBatch, refused: func(i int) bool { return i%25 == 24 }, hidden: true, want: []int{1, 1, 5, 8, 56, 63}},
		"all of many, hidden":    {groups: maxBatch, refused: func(int) bool { return true }, hidden: true, want: []int{1, 1, 5, 8, 64, 425}},
		"all, hidden":            {groups: 66, refused: func(int) bool { return true }, hidden: true, want: []int{1, 1, 2, 8, 55}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := batch{hidden: row.hidden}
				var jobs, refused []string
				for i := range row.groups {
					jobs = append(jobs, strconv.Itoa(i))
					if row.refused(i) {
						refused = append(refused, jobs[i])
					}
				}
				err, op := zkconn.ErrBadVersion, 1
				if b.moved = refused; row.gone {
					b.moved, b.gone, err, op = nil, refused, zkconn.ErrNoNode, 0
				}
				results, rounds := b.apply(t, jobs...)
				var requests []int
				for _, round := range rounds {
					requests = append(requests, len(round))
				}
				if !slices.Equal(requests, row.want) {
					t.Errorf("requests by round trip: %d, want %d", requests, row.want)
				}
				for i, r := range results {
					if row.refused(i) {
						wantRefused(t, i, r, err, op)
					} else {
						wantStats(t, i, r)
					}
				}
			})
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

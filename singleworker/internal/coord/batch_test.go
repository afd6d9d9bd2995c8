package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
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
		if got := fitting(row.groups); got != row.want {
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

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return &zkconn.MultiError{Index: 1, Err: &zkconn.OpError{Op: "set", Path: "/a", Err: err}}
	}
	for _, row := range []struct {
		err  error
		want lease.Outcome
	}{
		{nil, lease.Done},
		{wrap(zkconn.ErrBadVersion), lease.Refused},
		{wrap(zkconn.ErrNoNode), lease.Refused},
		{wrap(zkconn.ErrDenied), lease.Refused},
		{zkconn.ErrLost, lease.Unknown},
		{&zkconn.OpError{Op: "multi", Path: "/a", Err: context.DeadlineExceeded}, lease.Unknown},
		{errTooManyRefusals, lease.Unknown}, // the rest was not tried: read again
	} {
		if got := outcomeOf(row.err); got != row.want {
			t.Errorf("outcome of %v = %d, want %d", row.err, got, row.want)
		}
	}
}

func TestOnePerTime(t *testing.T) {
	t.Parallel()
	var o onePerTime
	if !o.begin() {
		t.Fatal("the first may not begin")
	}
	for range 2 {
		if o.begin() {
			t.Error("another begins while the first runs")
		}
	}
	if !o.end() {
		t.Error("what was asked for meanwhile is forgotten")
	}
	if !o.begin() || o.end() {
		t.Error("asked for once, it is done a second time")
	}
}

// inBatch applies groups to a server that refuses by path, and returns what became of
// them and the transactions that were sent.
func inBatch(t *testing.T, groups [][]zkconn.Op, refuse map[string]int32) (results []result, sent []string) {
	t.Helper()
	p := &peer{refuse: refuse}
	conn, err := zkconn.Open(zkconn.Config{
		Servers: "zk1", SessionTimeout: 4 * time.Second, Dial: p.dial, Logger: discard,
	}, func(zkconn.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &Coordinator{cfg: Config{Clock: grant.NewClock()}, conn: conn}
	results = c.applyBatch(t.Context(), groups)
	return results, p.transactions()
}

// claims are groups as claims have them: a check of alive, a write of tick.
func claims(names ...string) [][]zkconn.Op {
	var groups [][]zkconn.Op
	for _, name := range names {
		groups = append(groups, []zkconn.Op{
			zkconn.CheckOp("/"+name+"/alive", 1), zkconn.SetOp("/"+name+"/tick", nil, 2),
		})
	}
	return groups
}

func TestBatchIsOneTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, sent := inBatch(t, claims("a", "b"), nil)
		if want := []string{"/a/alive /a/tick /b/alive /b/tick"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
		for i, r := range results {
			if r.err != nil || r.refused != -1 || len(r.stats) != 2 || r.stats[1].Version != int32(10*i+11) {
				t.Errorf("group %d: %+v, want its own two stats", i, r)
			}
		}
	})
}

func TestRefusedGroupDoesNotKeepTheOthersBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, sent := inBatch(t, claims("a", "b", "c", "d"), map[string]int32{"/b/tick": badVersion, "/d/alive": noNode})
		want := []string{
			"/a/alive /a/tick /b/alive /b/tick /c/alive /c/tick /d/alive /d/tick",
			"/a/alive /a/tick /c/alive /c/tick /d/alive /d/tick",
			"/a/alive /a/tick /c/alive /c/tick",
		}
		if !slices.Equal(sent, want) {
			t.Errorf("sent\n  %s\nwant\n  %s", strings.Join(sent, "\n  "), strings.Join(want, "\n  "))
		}
		for i, want := range []struct {
			err     error
			refused int
		}{{nil, -1}, {zkconn.ErrBadVersion, 1}, {nil, -1}, {zkconn.ErrNoNode, 0}} {
			if r := results[i]; !errors.Is(r.err, want.err) || r.refused != want.refused {
				t.Errorf("group %d: %v by its operation %d, want %v by %d", i, r.err, r.refused, want.err, want.refused)
			}
		}
		for i, group := range []int{0, 2} { // as they stood in the last transaction
			if stats := results[group].stats; len(stats) != 2 || stats[1].Version != int32(10*i+11) {
				t.Errorf("group %d: stats %+v, want its own two", group, stats)
			}
		}
	})
}

func TestTooManyRefusalsLeaveTheRestToBeReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var names []string
		refuse := make(map[string]int32)
		for i := range maxRefusals + 3 {
			names = append(names, strconv.Itoa(i))
			refuse[fmt.Sprintf("/%d/alive", i)] = badVersion
		}
		results, sent := inBatch(t, claims(names...), refuse)
		if len(sent) != maxRefusals+1 {
			t.Errorf("%d transactions, want %d", len(sent), maxRefusals+1)
		}
		for i, r := range results {
			if unknown := i >= maxRefusals; zkconn.IsUnknown(r.err) != unknown || (r.refused == 0) == unknown {
				t.Errorf("group %d: %v by its operation %d, want it unknown: %v", i, r.err, r.refused, unknown)
			}
		}
	})
}

func TestLostReplyLeavesAllThatIsOpenUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, sent := inBatch(t, claims("a", "b", "c"), map[string]int32{"/a/alive": badVersion, "/c/tick": hangUp})
		if len(sent) != 2 {
			t.Errorf("sent %q, want two transactions", sent)
		}
		if !errors.Is(results[0].err, zkconn.ErrBadVersion) {
			t.Errorf("the refused group: %v, want what refused it", results[0].err)
		}
		for i, r := range results[1:] {
			if !zkconn.IsUnknown(r.err) || r.refused != -1 || r.stats != nil {
				t.Errorf("group %d: %+v, want it unknown", i+1, r)
			}
		}
	})
}

package txnlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
)

// next is added by a new leader to the zxid of the one before.
const next = 1 << 32

func wrote(zxid int64, ops ...txnlog.Op) *txnlog.Txn {
	return &txnlog.Txn{Zxid: zxid, Session: 7, Kind: txnlog.Write, Ops: ops}
}

func create(path string) txnlog.Op { return txnlog.Op{Type: txnlog.Create, Path: path} }

func remove(path string) txnlog.Op { return txnlog.Op{Type: txnlog.Delete, Path: path} }

func set(path string, version int32) txnlog.Op {
	return txnlog.Op{Type: txnlog.SetData, Path: path, Version: version}
}

func check(path string, version int32) txnlog.Op {
	return txnlog.Op{Type: txnlog.Check, Path: path, Version: version + 1}
}

func ephemeral(path string) txnlog.Op { return txnlog.Op{Type: txnlog.Create, Path: path, Owner: 7} }

// TestHistory: versions show which transactions a leader did not have.
func TestHistory(t *testing.T) {
	t.Parallel()
	began := []*txnlog.Txn{wrote(1, create("/a")), wrote(2, set("/a", 1)), wrote(3, set("/a", 2))}
	for name, test := range map[string]struct {
		txns []*txnlog.Txn
		want string // what returned, and what was lost
	}{
		"nothing":                 {[]*txnlog.Txn{wrote(next+1, set("/a", 3), check("/a", 3)), wrote(next+2, set("/a", 4), remove("/a"), create("/a"))}, ""},
		"a node seen first":       {[]*txnlog.Txn{wrote(4, set("/x", 9), check("/y", 3), remove("/z")), wrote(next+5, set("/x", 10), create("/z"))}, ""},
		"a write":                 {[]*txnlog.Txn{wrote(next+1, set("/a", 2))}, "/a v1 without 3; lost 1 in 3-3"},
		"two writes":              {[]*txnlog.Txn{wrote(next+1, set("/a", 1))}, "/a v0 without 3 2; lost 2 in 2-3"},
		"a check shows it":        {[]*txnlog.Txn{wrote(next+1, check("/a", 1)), wrote(next+2, set("/a", 2))}, "/a v1 without 3; lost 1 in 3-3"},
		"a creation":              {[]*txnlog.Txn{wrote(next+1, create("/a"))}, "/a none without 3 2 1; lost 3 in 1-3"},
		"a deletion":              {[]*txnlog.Txn{wrote(4, remove("/a")), wrote(next+1, set("/a", 3))}, "/a v2 without 4; lost 1 in 4-4"},
		"what was deleted again":  {[]*txnlog.Txn{wrote(4, remove("/a")), wrote(next+1, remove("/a"))}, "/a v2 without 4; lost 1 in 4-4"},
		"by the same leader":      {[]*txnlog.Txn{wrote(4, set("/a", 2))}, ""},
		"what nobody has written": {[]*txnlog.Txn{wrote(next+1, set("/a", 8))}, ""},
		"one loss in two nodes":   {[]*txnlog.Txn{wrote(4, create("/b"), set("/a", 3)), wrote(next+1, set("/a", 3)), wrote(next+2, create("/b"))}, "/a v2 without 4, /b none without 4; lost 1 in 4-4"},
		"a node that nobody writes again": {
			[]*txnlog.Txn{wrote(4, create("/b"), set("/a", 3)), wrote(next+1, set("/a", 3))}, "/a v2 without 4, /b none without 4; lost 1 in 4-4",
		},
		"two losses":              {[]*txnlog.Txn{wrote(next+1, set("/a", 2)), wrote(next+2, set("/a", 3)), wrote(2*next+1, set("/a", 3))}, "/a v1 without 3, /a v2 without 4294967298; lost 1 in 3-3; lost 1 in 4294967298-4294967298"},
		"a node is written again": {[]*txnlog.Txn{wrote(next+1, set("/a", 2)), wrote(next+2, set("/a", 3))}, "/a v1 without 3; lost 1 in 3-3"},
		"with what is above": {
			[]*txnlog.Txn{wrote(4, create("/a/b")), wrote(5, remove("/a/b"), remove("/a"), create("/a")), wrote(next+1, set("/a/b", 1))},
			"/a/b v0 without 5, /a v2 without 5 5; lost 1 in 5-5",
		},
		"an old log's ephemeral node": {[]*txnlog.Txn{wrote(4, ephemeral("/e")), {Zxid: 5, Session: 7, Kind: txnlog.Close}, wrote(next+1, ephemeral("/e"))}, ""},
	} {
		h := txnlog.NewHistory()
		var got []string
		for _, x := range append(began[:3:3], test.txns...) {
			returns, back := h.Next(x)
			for _, r := range returns {
				what := "none"
				if r.Node != nil {
					what = fmt.Sprint("v", r.Node.Version)
				}
				var gone []int64
				for _, n := range r.Gone {
					gone = append(gone, n.Mzxid)
				}
				got = append(got, fmt.Sprint(r.Path, " ", what, " without ", strings.Trim(fmt.Sprint(gone), "[]")))
			}
			if back != 0 {
				t.Errorf("%s: %d came back", name, back)
			}
		}
		parts := []string{strings.Join(got, ", ")}
		for _, l := range h.Losses() {
			parts = append(parts, fmt.Sprintf("lost %d in %d-%d", l.Txns, l.First, l.Last))
		}
		text := strings.Join(parts, "; ")
		if text != test.want {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}

// TestHistoryCameBack: a leader has transactions that an earlier one had not.
func TestHistoryCameBack(t *testing.T) {
	t.Parallel()
	h := txnlog.NewHistory()
	h.Next(wrote(1, create("/a")))
	h.SetAside(wrote(2, set("/a", 1), check("/a", 1)))
	h.SetAside(wrote(3, set("/a", 2)))
	if returns, back := h.Next(wrote(next+1, create("/b"))); len(returns) != 0 || back != 0 {
		t.Errorf("another node: %v, %d", returns, back)
	}
	if returns, back := h.Next(wrote(next+2, set("/a", 3))); len(returns) != 0 || back != 3 {
		t.Errorf("after the second: %v, %d, want 3", returns, back)
	}
}

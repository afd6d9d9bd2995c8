package ledger_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// lose gives a node the content of an earlier transaction, because later ones are lost.
func (w *world) lose(path string, zxid int64, data []byte, gone ...txnlog.Node) {
	w.ledger.Return(txnlog.Return{Path: path, Node: &txnlog.Node{Path: path, Data: data, Czxid: 1, Mzxid: zxid, Mtime: at(2)}, Gone: gone})
}

// TestReturn: after a loss it counts the state that ZooKeeper had left, and nothing else is
// forgiven.
func TestReturn(t *testing.T) {
	t.Parallel()
	// b takes j from a, and claims; the ownership is lost, and perhaps the claim as well.
	taken := func(w *world, claimToo bool) {
		w.own(1, "j", "a")
		token, before := w.token["j"], w.tick["j"]
		w.own(15, "j", "b")
		gone := txnlog.Node{Path: tree.Alive("j"), Mzxid: w.token["j"]}
		w.record(20, "j", w.claimed("j", 20, "r1"), missed(10, 10, 1))
		claim := txnlog.Node{Path: tree.Tick("j"), Data: w.tick["j"].Encode(), Mzxid: w.zxid}
		w.lose(tree.Alive("j"), token, zkrec.Owner{SID: "a", Incarnation: "a!"}.Encode(), gone)
		if claimToo {
			w.lose(tree.Tick("j"), 1, before.Encode(), claim)
			w.tick["j"], w.history["j"] = before, zkrec.Log{}
			w.lose(tree.History("j"), 1, nil)
		}
		w.owner["j"], w.token["j"] = "a", token
	}
	ask := func(w *world) (before zkrec.Tick) {
		w.own(1, "j", "a")
		w.write(2, operator, create(tree.Request("j", "q"), zkrec.Request{Kind: zkrec.RequestRun}.Encode()))
		return w.tick["j"]
	}
	claim := func(w *world, run string) {
		rec := w.claimed("j", 2, run)
		rec.Manual, rec.Watermark = "q", ms(0)
		w.record(3, "j", rec)
	}
	tell(t, []story{
		{"the earlier owner claims", func(w *world) { taken(w, true); w.record(30, "j", w.claimed("j", 30, "r2"), missed(10, 20, 2)) }, nil},
		{"with an older token", func(w *world) {
			taken(w, false)
			w.end(21, "j", history.StateOK)
			w.record(30, "j", w.claimed("j", 30, "r2"))
		}, nil},
		{"the later owner claims", func(w *world) {
			taken(w, true)
			rec := w.claimed("j", 30, "r2")
			rec.SID = "b"
			w.record(30, "j", rec, missed(10, 20, 2))
		}, []ledger.Rule{ledger.Claimant}},
		{"a lost tick is left out", func(w *world) { taken(w, true); w.record(30, "j", w.claimed("j", 30, "r2"), missed(10, 10, 1)) }, []ledger.Rule{ledger.Account}},
		{"a claim that is not lost is made again", func(w *world) { taken(w, false); w.record(21, "j", w.claimed("j", 20, "r2")) }, []ledger.Rule{ledger.Claim, ledger.Account}},
		{"a lost claim of a request", func(w *world) {
			before := ask(w)
			claim(w, "r1")
			w.lose(tree.Tick("j"), 1, before.Encode(), txnlog.Node{Path: tree.Tick("j"), Data: w.tick["j"].Encode()})
			w.tick["j"] = before
			claim(w, "r2")
		}, nil},
		{"the deletion of a request is lost", func(w *world) {
			ask(w)
			claim(w, "r1")
			w.end(4, "j", history.StateOK)
			w.write(4, 1, remove(tree.Request("j", "q")))
			w.lose(tree.Request("j", "q"), 6, zkrec.Request{Kind: zkrec.RequestRun}.Encode())
			w.write(5, 1, remove(tree.Request("j", "q")))
		}, nil},
		{"and it is claimed again", func(w *world) {
			ask(w)
			claim(w, "r1")
			w.end(4, "j", history.StateOK)
			w.write(4, 1, remove(tree.Request("j", "q")))
			w.lose(tree.Request("j", "q"), 6, zkrec.Request{Kind: zkrec.RequestRun}.Encode())
			claim(w, "r2")
		}, []ledger.Rule{ledger.Claim}},
	})
}

package ledger_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

func place(n int) zkrec.Place { return zkrec.Place{Limit: "api", Number: n} }

func taken(slot string, n int) txnlog.Op { return create(tree.HeldPlace(place(n)), []byte(slot)) }

func freed(n int) txnlog.Op { return remove(tree.HeldPlace(place(n))) }

// claimWith claims a tick whose record names places, with further operations.
func (w *world) claimWith(slot string, places []zkrec.Place, ops ...txnlog.Op) {
	rec := w.claimed(slot, 10, slot+"-run")
	rec.Places = zkrec.PlacesOf(places...)
	w.tick[slot] = rec
	w.write(10, w.sessions[rec.SID], append(ops, set(tree.Tick(slot), rec.Encode()))...)
}

// endWith records the end of a slot's run, with further operations.
func (w *world) endWith(slot string, ops ...txnlog.Op) {
	rec := w.tick[slot]
	rec.State, rec.Ended = history.StateOK, ms(12)
	w.history[slot] = w.history[slot].Add(zkrec.MinHistory, w.tick[slot].Watermark, zkrec.Entry{Run: rec.Run})
	rec.History = w.history[slot].Mark()
	w.tick[slot] = rec.Normal()
	w.write(12, w.sessions[rec.SID], append(append(ops, set(tree.Tick(slot), rec.Encode())), w.pages(slot)...)...)
}

// TestLimit: at each transaction as many places are taken as open runs hold, and no more than there
// are.
func TestLimit(t *testing.T) {
	t.Parallel()
	// begin has the jobs x and y, which need a place of two, and z, which needs both.
	begin := func(w *world) {
		w.write(0, operator, create(tree.Limit("api"), zkrec.Limit{Max: 2}.Encode()))
		for slot, need := range map[string]int{"x": 1, "y": 1, "z": 2} {
			w.submit(0, slot, job.Job{Schedule: "*/10 * * * * ?", Limits: map[string]int{"api": need}})
			w.own(1, slot, "a")
		}
	}
	one, two := []zkrec.Place{place(0)}, []zkrec.Place{place(1)}
	broken := []ledger.Rule{ledger.Limit}
	tell(t, []story{
		{"two runs, which end", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.claimWith("y", two, taken("y", 1))
			w.endWith("x", freed(0))
			w.endWith("y", freed(1))
		}, nil},
		{"in place of a run that is lost", func(w *world) {
			begin(w)
			before := w.tick["x"]
			w.claimWith("x", one, taken("x", 0))
			w.lose(tree.Tick("x"), 1, before.Encode(), txnlog.Node{Path: tree.Tick("x"), Data: w.tick["x"].Encode(), Mzxid: w.zxid})
			w.ledger.Return(txnlog.Return{Path: tree.HeldPlace(place(0))})
			w.claimWith("y", one, taken("y", 0))
		}, nil},
		{"in place of a run whose end is lost", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			open, zxid := w.tick["x"], w.zxid
			w.endWith("x", freed(0))
			w.lose(tree.Tick("x"), zxid, open.Encode(), txnlog.Node{Path: tree.Tick("x"), Data: w.tick["x"].Encode(), Mzxid: w.zxid})
			w.ledger.Return(txnlog.Return{Path: tree.HeldPlace(place(0)), Node: &txnlog.Node{Path: tree.HeldPlace(place(0)), Data: []byte("x"), Czxid: zxid, Mzxid: zxid, Mtime: at(10)}})
			w.claimWith("y", one)
		}, []ledger.Rule{ledger.Limit, ledger.Limit}},
		{"both places for one run", func(w *world) {
			begin(w)
			w.claimWith("z", append(one, two...), taken("z", 0), taken("z", 1))
			w.endWith("z", freed(0), freed(1))
		}, nil},
		{"the limit is lowered beside runs", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.claimWith("y", two, taken("y", 1))
			w.write(11, operator, set(tree.Limit("api"), zkrec.Limit{Max: 1}.Encode()))
			w.endWith("x", freed(0))
			w.endWith("y", freed(1))
		}, nil},
		{"a place too many", func(w *world) { begin(w); w.claimWith("x", []zkrec.Place{place(2)}, taken("x", 2)) }, broken},
		{"a run too many, after the limit was lowered", func(w *world) {
			begin(w)
			w.claimWith("y", two, taken("y", 1))
			w.write(11, operator, set(tree.Limit("api"), zkrec.Limit{Max: 1}.Encode()))
			w.claimWith("x", one, taken("x", 0))
		}, broken},
		{"a deleted limit", func(w *world) {
			begin(w)
			w.write(11, operator, set(tree.Limit("api"), zkrec.Limit{Max: 2, Deleted: true}.Encode()))
			w.claimWith("x", one, taken("x", 0))
		}, broken},
		{"no place for a run", func(w *world) { begin(w); w.claimWith("x", nil) }, broken},
		{"one place for a run that needs two", func(w *world) { begin(w); w.claimWith("z", one, taken("z", 0)) }, broken},
		{"a place that the record does not name", func(w *world) { begin(w); w.claimWith("x", one, taken("x", 0), taken("x", 1)) }, broken},
		{"a place that is not taken", func(w *world) { begin(w); w.claimWith("x", one) }, broken},
		{"a place that is not given back", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.endWith("x")
		}, broken},
		{"another run's place is given back", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.claimWith("y", two, taken("y", 1))
			w.endWith("x", freed(1))
		}, []ledger.Rule{ledger.Limit, ledger.Limit}},
		{"a place of a run is freed by hand", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.write(11, operator, freed(0))
		}, broken},
		{"the record of a run is deleted, and its place is not", func(w *world) {
			begin(w)
			w.claimWith("x", one, taken("x", 0))
			w.write(11, operator, remove(tree.Tick("x")))
		}, []ledger.Rule{ledger.Account, ledger.Limit}},
	})
}

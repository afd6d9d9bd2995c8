package ledger_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestAfter: a child claims the ticks that its parents have in common, each once, when all of them
// have run it with state ok.
func TestAfter(t *testing.T) {
	t.Parallel()
	// begin has the parents j, each ten seconds, and k, each twenty, of the child c.
	begin := func(w *world) {
		w.submit(0, "k", job.Job{Schedule: "*/20 * * * * ?"})
		w.submit(0, "c", job.Job{Schedule: "@after", After: []string{"j", "k"}})
		for _, slot := range []string{"j", "k", "c"} {
			w.own(1, slot, "a")
		}
	}
	ran := func(w *world, slot string, tick float64, state history.State) {
		w.record(tick, slot, w.claimed(slot, tick, slot+"-run"))
		w.end(tick+1, slot, state)
	}
	parents := func(w *world) {
		begin(w)
		w.record(10, "j", w.claimed("j", 10, "j-first"))
		w.end(11, "j", history.StateOK)
		ran(w, "j", 20, history.StateOK)
		ran(w, "k", 20, history.StateOK)
	}
	claims := func(w *world, tick float64, run string) { w.record(29, "c", w.claimed("c", tick, run)) }
	tell(t, []story{
		{"both are ok", func(w *world) { parents(w); claims(w, 20, "c1") }, nil},
		{"one runs", func(w *world) {
			begin(w)
			w.record(10, "j", w.claimed("j", 10, "j-first"))
			w.end(11, "j", history.StateOK)
			ran(w, "j", 20, history.StateOK)
			w.record(20, "k", w.claimed("k", 20, "k-run"))
			claims(w, 20, "c1")
		}, []ledger.Rule{ledger.Claim}},
		{"one has failed", func(w *world) {
			begin(w)
			w.record(10, "j", w.claimed("j", 10, "j-first"))
			w.end(11, "j", history.StateOK)
			ran(w, "j", 20, history.StateOK)
			ran(w, "k", 20, history.StateFailed)
			claims(w, 20, "c1")
		}, []ledger.Rule{ledger.Claim}},
		{"once per parent", func(w *world) {
			parents(w)
			claims(w, 20, "c1")
			w.end(30, "c", history.StateOK)
			claims(w, 20, "c2")
		}, []ledger.Rule{ledger.Claim}},
		{"a tick of one parent alone", func(w *world) { parents(w); claims(w, 10, "c1") }, []ledger.Rule{ledger.Claim, ledger.Account}},
		{"a row for it", func(w *world) {
			parents(w)
			rec := w.tick["c"]
			rec.SID, rec.Watermark = "a", ms(20)
			w.record(29, "c", rec, missed(20, 20, 1))
		}, nil},
		{"a row for another one", func(w *world) {
			parents(w)
			rec := w.tick["c"]
			rec.SID, rec.Watermark = "a", ms(20)
			w.record(29, "c", rec, missed(10, 20, 2))
		}, []ledger.Rule{ledger.Account}},
		{"a parent that is gone", func(w *world) {
			parents(w)
			w.release(22, "k", 1)
			w.cancel(23, "k")
			claims(w, 20, "c1")
		}, []ledger.Rule{ledger.Claim}},
		{"a parent that was submitted again", func(w *world) {
			parents(w)
			w.release(22, "k", 1)
			w.cancel(23, "k")
			w.submit(24, "k", job.Job{Schedule: "*/20 * * * * ?"})
			claims(w, 20, "c1")
		}, []ledger.Rule{ledger.Claim, ledger.Account}},
		{"after one that has come after it since", func(w *world) {
			parents(w)
			w.write(25, operator, set(tree.Job("k"), zkrec.Spec{Job: job.Job{Schedule: "@after", After: []string{"c"}}, Former: &zkrec.Former{Schedule: "*/20 * * * * ?", Since: ms(0)}}.Encode()))
			w.write(26, operator, set(tree.Job("c"), zkrec.Spec{
				Job: job.Job{Schedule: "@after", After: []string{"j"}}, Since: ms(26), Former: &zkrec.Former{Schedule: "@after", After: []string{"j", "k"}, Since: ms(0)},
			}.Encode()))
			w.record(30, "j", w.claimed("j", 30, "j-last"))
			w.end(31, "j", history.StateOK)
			w.record(32, "c", w.claimed("c", 30, "c1"))
		}, nil},
		{"after another schedule of a parent", func(w *world) {
			parents(w)
			w.write(25, operator, set(tree.Job("k"), zkrec.Spec{Job: job.Job{Schedule: "*/15 * * * * ?"}, Former: &zkrec.Former{Schedule: "*/20 * * * * ?", Since: ms(0)}}.Encode()))
			claims(w, 20, "c1")
		}, nil},
	})
}

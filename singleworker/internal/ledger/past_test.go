package ledger_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TestPastTicks: a past tick is claimed by name only, once for each request, as the attempt after
// the last on record.
func TestPastTicks(t *testing.T) {
	t.Parallel()
	ask := func(w *world, id string, at float64, attempt int, why history.Past) {
		request := zkrec.Request{Kind: zkrec.RequestPast, Tick: ms(at), Past: why, Attempt: attempt, By: "ann"}
		w.write(35, operator, create(tree.Request("j", id), request.Encode()))
	}
	// begin has 10 ok, 20 failed and 30 missed.
	begin := func(w *world) {
		w.own(1, "j", "a")
		w.record(10, "j", w.claimed("j", 10, "r1"))
		w.end(11, "j", history.StateOK)
		w.record(20, "j", w.claimed("j", 20, "r2"))
		rec := w.tick["j"]
		rec.State, rec.Ended = history.StateFailed, ms(21)
		w.record(21, "j", rec, zkrec.Entry{Run: rec.Run})
		rec.Watermark = ms(30)
		w.record(31, "j", rec, missed(30, 30, 1))
	}
	claim := func(w *world, run, id string, at float64, attempt int, why history.Past) {
		rec := w.claimed("j", at, run)
		rec.Manual, rec.Watermark, rec.Attempt = id, w.tick["j"].Watermark, attempt
		rec.AskedFor(history.Asked{AskedBy: "ann", Past: why})
		w.record(36, "j", rec)
	}
	tell(t, []story{
		{"a missed one", func(w *world) {
			begin(w)
			ask(w, "q", 30, 1, history.PastMissed)
			claim(w, "r3", "q", 30, 1, history.PastMissed)
			w.end(37, "j", history.StateOK)
			w.write(38, 1, remove(tree.Request("j", "q")))
			w.record(40, "j", w.claimed("j", 40, "r4"))
		}, nil},
		{"a failed one, and once more", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			claim(w, "r3", "q", 20, 2, history.PastFailed)
			w.end(37, "j", history.StateOK)
			ask(w, "p", 20, 3, history.PastAgain)
			claim(w, "r4", "p", 20, 3, history.PastAgain)
		}, nil},
		{"twice for one request", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			claim(w, "r3", "q", 20, 2, history.PastFailed)
			w.end(37, "j", history.StateOK)
			claim(w, "r4", "q", 20, 3, history.PastFailed)
		}, []ledger.Rule{ledger.Claim}},
		{"twice as one attempt", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			ask(w, "p", 20, 2, history.PastFailed)
			claim(w, "r3", "q", 20, 2, history.PastFailed)
			w.end(37, "j", history.StateOK)
			claim(w, "r4", "p", 20, 2, history.PastFailed)
		}, []ledger.Rule{ledger.Claim}},
		{"as an attempt too many", func(w *world) {
			begin(w)
			ask(w, "q", 20, 3, history.PastFailed)
			claim(w, "r3", "q", 20, 3, history.PastFailed)
		}, []ledger.Rule{ledger.Claim}},
		{"that nobody has asked for", func(w *world) {
			begin(w)
			claim(w, "r3", "q", 20, 2, history.PastFailed)
		}, []ledger.Rule{ledger.Claim}},
		{"another one than was asked for", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			claim(w, "r3", "q", 10, 2, history.PastFailed)
		}, []ledger.Rule{ledger.Claim}},
		{"for a reason that was not given", func(w *world) {
			begin(w)
			ask(w, "q", 10, 2, history.PastFailed)
			claim(w, "r3", "q", 10, 2, history.PastAgain)
		}, []ledger.Rule{ledger.Claim}},
		{"as if it was requested now", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			claim(w, "r3", "q", 36, 1, "")
		}, []ledger.Rule{ledger.Claim}},
		{"one that is yet to come", func(w *world) {
			begin(w)
			ask(w, "q", 40, 1, history.PastMissed)
			claim(w, "r3", "q", 40, 1, history.PastMissed)
		}, []ledger.Rule{ledger.Claim}},
		{"without a name", func(w *world) {
			begin(w)
			rec := w.claimed("j", 20, "r3")
			rec.Watermark, rec.Attempt = w.tick["j"].Watermark, 2
			w.record(36, "j", rec)
		}, []ledger.Rule{ledger.Claim}},
		{"dropped", func(w *world) {
			begin(w)
			ask(w, "q", 20, 2, history.PastFailed)
			w.write(38, 1, remove(tree.Request("j", "q")))
		}, []ledger.Rule{ledger.Claim}},
	})
}

// TestBackfills: a claim takes the next tick off a backfill, and leaves the others in it.
func TestBackfills(t *testing.T) {
	t.Parallel()
	// begin has 10 to 30 missed, and all of them asked for.
	begin := func(w *world) zkrec.Request {
		w.own(1, "j", "a")
		rec := w.tick["j"]
		rec.Watermark = ms(30)
		w.recordIn(31, 1, "j", rec, missed(10, 30, 3))
		all := zkrec.Request{Kind: zkrec.RequestBackfill, By: "ann"}
		for _, at := range []float64{10, 20, 30} {
			all.Backfill.Add(zkrec.Request{Tick: ms(at), Past: history.PastMissed, Attempt: 1})
		}
		w.write(35, operator, create(tree.Request("j", "q"), all.Encode()))
		return all
	}
	claim := func(w *world, id string, next zkrec.Request) txnlog.Op {
		rec := w.claimed("j", 10, id)
		rec.Tick, rec.Manual, rec.Watermark, rec.Attempt = next.Tick, id, w.tick["j"].Watermark, next.Attempt
		rec.AskedFor(history.Asked{AskedBy: "ann", Past: next.Past})
		rec.History = w.history["j"].Mark()
		w.tick["j"] = rec.Normal()
		return set(tree.Tick("j"), rec.Encode())
	}
	left := func(rest zkrec.Request) txnlog.Op {
		if len(rest.Backfill.Rows) == 0 {
			return remove(tree.Request("j", "q"))
		}
		return set(tree.Request("j", "q"), rest.Encode())
	}
	taken := func(w *world, at float64, all zkrec.Request) (rest zkrec.Request) {
		id, next, rest := all.Next("q")
		w.write(at, 1, create(tree.Request("j", id), next.Encode()), left(rest), claim(w, id, next))
		w.end(at+1, "j", history.StateOK)
		w.write(at+2, 1, remove(tree.Request("j", id)))
		return rest
	}
	tell(t, []story{
		{"to the last", func(w *world) {
			taken(w, 44, taken(w, 40, taken(w, 36, begin(w))))
		}, nil},
		{"and stopped", func(w *world) {
			taken(w, 36, begin(w))
			w.write(40, operator, remove(tree.Request("j", "q")))
		}, nil},
		{"left in it", func(w *world) {
			all := begin(w)
			id, next, _ := all.Next("q")
			w.write(36, 1, create(tree.Request("j", id), next.Encode()), set(tree.Request("j", "q"), all.Encode()), claim(w, id, next))
		}, []ledger.Rule{ledger.Claim}},
		{"the second first", func(w *world) {
			_, _, all := begin(w).Next("q")
			id, next, rest := all.Next("q")
			w.write(36, 1, create(tree.Request("j", id), next.Encode()), left(rest), claim(w, id, next))
		}, []ledger.Rule{ledger.Claim, ledger.Claim}},
		{"and not claimed", func(w *world) {
			id, next, rest := begin(w).Next("q")
			w.write(36, 1, create(tree.Request("j", id), next.Encode()), left(rest))
		}, []ledger.Rule{ledger.Claim}},
		{"that nobody has asked for", func(w *world) {
			id, next, _ := begin(w).Next("q")
			w.write(36, operator, remove(tree.Request("j", "q")))
			w.write(37, 1, create(tree.Request("j", id), next.Encode()), claim(w, id, next))
		}, []ledger.Rule{ledger.Claim}},
		{"dropped before its end", func(w *world) {
			taken(w, 36, begin(w))
			w.write(40, 1, remove(tree.Request("j", "q")))
		}, []ledger.Rule{ledger.Claim}},
	})
}

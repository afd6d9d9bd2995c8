package ledger_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// spec is the spec of a job with shards, in a layout that may be another one.
func spec(shards int, layout *zkrec.Layout) zkrec.Spec {
	return zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?", Shards: shards}, Since: ms(0), Layout: layout}
}

func layout(shards int, since, until int64) *zkrec.Layout {
	return &zkrec.Layout{Sharding: zkrec.Sharding{Shards: shards}, Since: since, Until: until}
}

// makeShard makes the nodes of a shard whose ticks begin after a time.
func (w *world) makeShard(second float64, slot string, after int64) {
	var ops []txnlog.Op
	for _, n := range tree.NewShard(slot, after) {
		ops = append(ops, create(n.Path, n.Data))
	}
	w.tick[slot], w.history[slot] = zkrec.Tick{Watermark: after}, zkrec.Log{}
	w.write(second, 1, ops...)
}

func (w *world) deleteShard(second float64, slot string) {
	w.write(second, 1, remove(tree.Alive(slot)), remove(tree.Tick(slot)), remove(tree.History(slot)), remove(tree.Requests(slot)), remove(tree.Slot(slot)))
}

func (w *world) run(second float64, slot string, tick float64, run string) {
	w.record(second, slot, w.claimed(slot, tick, run))
	w.end(second, slot, history.StateOK)
}

func (w *world) complete(second, tick float64) {
	w.write(second, 1, set(tree.Shards("s"), zkrec.Complete{Tick: ms(tick)}.Encode()))
}

// divided is a job of two shards that has run its first tick in both.
func divided(w *world) {
	w.submit(0, "s", job.Job{Schedule: "*/10 * * * * ?", Shards: 2})
	for _, slot := range []string{"s[0]", "s[1]"} {
		w.makeShard(1, slot, ms(0))
		w.own(2, slot, "a")
		w.run(10, slot, 10, slot+"1")
	}
}

// resharding has the job change to three shards after its tick at 20, which one of them has run.
func resharding(w *world) {
	divided(w)
	w.complete(11, 10)
	w.run(20, "s[0]", 20, "x")
	w.write(21, operator, set(tree.Job("s"), spec(3, layout(2, 0, 0)).Encode()))
	w.write(22, 1, set(tree.Job("s"), spec(3, layout(2, 0, ms(20))).Encode()))
}

func (w *world) resharded(second float64) {
	w.write(second, 1, set(tree.Job("s"), spec(3, layout(3, ms(20), 0)).Encode()))
}

func TestShards(t *testing.T) {
	t.Parallel()
	tell(t, []story{
		{"a complete tick", func(w *world) { divided(w); w.complete(11, 10) }, nil},
		{"one that is not", func(w *world) { divided(w); w.run(20, "s[0]", 20, "x"); w.complete(21, 20) }, []ledger.Rule{ledger.Shards}},
		{"one again", func(w *world) { divided(w); w.complete(11, 10); w.complete(12, 10) }, []ledger.Rule{ledger.Shards}},
		{"another number of shards", func(w *world) {
			resharding(w)
			w.run(23, "s[1]", 20, "y")
			w.complete(23, 20)
			w.resharded(24)
			w.makeShard(25, "s[2]", ms(20))
			w.own(25, "s[2]", "b")
			for _, slot := range []string{"s[0]", "s[1]", "s[2]"} {
				w.run(30, slot, 30, slot+"3")
			}
			w.complete(31, 30)
		}, nil},
		{"before all are done", func(w *world) { resharding(w); w.resharded(24) }, []ledger.Rule{ledger.Shards}},
		{"with a run in progress", func(w *world) {
			resharding(w)
			w.record(23, "s[1]", w.claimed("s[1]", 20, "y"))
			w.resharded(24)
		}, []ledger.Rule{ledger.Shards}},
		{"without an end of the former", func(w *world) {
			divided(w)
			w.write(21, operator, set(tree.Job("s"), spec(3, layout(3, ms(10), 0)).Encode()))
		}, []ledger.Rule{ledger.Shards}},
		{"a tick beyond the end", func(w *world) { resharding(w); w.run(30, "s[0]", 30, "z") }, []ledger.Rule{ledger.Shards}},
		{"a claim of a shard that there is not", func(w *world) {
			divided(w)
			w.makeShard(15, "s[2]", ms(10))
			w.own(15, "s[2]", "a")
			w.run(20, "s[2]", 20, "z")
		}, []ledger.Rule{ledger.Shards}},
		{"a shard that begins too late", func(w *world) {
			resharding(w)
			w.run(23, "s[1]", 20, "y")
			w.resharded(24)
			w.makeShard(35, "s[2]", ms(30))
		}, []ledger.Rule{ledger.Account}},
		{"a shard that is retired", func(w *world) {
			resharding(w)
			w.run(23, "s[1]", 20, "y")
			w.write(24, 1, set(tree.Job("s"), spec(1, layout(3, ms(20), ms(20))).Encode()))
			w.makeShard(25, "s[2]", ms(20))
			w.write(26, 1, set(tree.Job("s"), spec(1, layout(1, ms(20), 0)).Encode()))
			w.deleteShard(27, "s[1]")
			w.deleteShard(27, "s[2]")
		}, nil},
		{"a shard that is deleted", func(w *world) { divided(w); w.deleteShard(15, "s[1]") }, []ledger.Rule{ledger.Account}},
	})
}

// prepared is a job of two shards, of which the second waits for BeforeTick, and whose first one
// has claimed its tick at 10.
func prepared(w *world) {
	w.submit(0, "s", job.Job{Schedule: "*/10 * * * * ?", Shards: 2, BeforeTick: "prepare"})
	for _, slot := range []string{"s[0]", "s[1]"} {
		w.makeShard(1, slot, ms(0))
		w.own(2, slot, "a")
	}
	w.record(10, "s[0]", w.claimed("s[0]", 10, "x"))
}

// pass writes that BeforeTick has returned nil.
func (w *world) pass(second float64) {
	rec := w.tick["s[0]"]
	rec.Passed = ms(second)
	w.record(second, "s[0]", rec)
}

func TestBeforeTick(t *testing.T) {
	t.Parallel()
	second := func(w *world, at float64) { w.run(at, "s[1]", 10, "y") }
	tell(t, []story{
		{"it has returned nil", func(w *world) { prepared(w); w.pass(11); second(w, 12) }, nil},
		{"and the first shard has ended, too", func(w *world) { prepared(w); w.pass(11); w.end(12, "s[0]", history.StateOK); second(w, 13) }, nil},
		{"and is at the next tick", func(w *world) {
			prepared(w)
			w.pass(11)
			w.end(12, "s[0]", history.StateOK)
			w.record(20, "s[0]", w.claimed("s[0]", 20, "z"))
			second(w, 21)
		}, nil},
		{"it is in progress", func(w *world) { prepared(w); second(w, 12) }, []ledger.Rule{ledger.Shards}},
		{"it is that of the next tick", func(w *world) {
			prepared(w)
			w.end(12, "s[0]", history.StateLost)
			w.record(20, "s[0]", w.claimed("s[0]", 20, "z"))
			w.pass(21)
			second(w, 22)
		}, []ledger.Rule{ledger.Shards}},
		{"it has refused", func(w *world) { prepared(w); w.end(11, "s[0]", history.StateRefused); second(w, 12) }, []ledger.Rule{ledger.Shards}},
		{"it is not called again when it has refused", func(w *world) {
			prepared(w)
			rec := w.again("s[0]", "z")
			refused := w.tick["s[0]"].Run
			refused.State = history.StateRefused
			w.record(11, "s[0]", rec, zkrec.Entry{Run: refused})
		}, []ledger.Rule{ledger.Claim}},
		{"a manual run", func(w *world) {
			prepared(w)
			request := zkrec.Request{Kind: zkrec.RequestRun}
			w.write(11, operator, create(tree.Request("s[1]", "m"), request.Encode()))
			rec := w.claimed("s[1]", 11, "y")
			rec.Manual, rec.Watermark = "m", w.tick["s[1]"].Watermark
			w.record(12, "s[1]", rec)
		}, nil},
		{"a job without it", func(w *world) { divided(w); w.run(20, "s[1]", 20, "y") }, nil},
	})
}

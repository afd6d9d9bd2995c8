package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/sample/sql/child"
	"github.com/swjobs/singleworker/singleworker/history"
)

// The demonstration starts its own program three times; here that is the test's.
func TestMain(m *testing.M) { child.RunTests(m.Run, main) }

func TestEveryRowOnceThoughTwoFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, err := demonstrate(t.Context(), dir, t.Logf)
	if err != nil {
		child.PrintLogs(t.Output(), dir)
		t.Fatal(err)
	}
	f, wrong := judge(o)
	for _, w := range wrong {
		t.Error(w)
	}
	if f.rerun != 4 || f.first == 0 || f.rest == 0 || f.refused != 2 {
		t.Errorf("figures are %+v, want 4 shards run again and 2 late writes refused", f)
	}
	if t.Failed() {
		child.PrintLogs(t.Output(), dir)
		return
	}
	t.Log(verdict(o, f))
}

// right is an outcome that is right: two passes, the second of which was interrupted.
func right() outcome {
	o := outcome{killed: "a", stopped: "b", healthy: "c", lease: 3000, stood: 5000, held: map[string][]write{}}
	owners := []string{"a", "b", "c", "a", "b", "c"}
	before, then := tick{Pass: 2000}, tick{Pass: 4000}
	for number, id := range owners {
		before.Shards = append(before.Shards, shard{history.StateOK, id, 1, 7, 2500})
		o.parts = append(o.parts, part{2000, number, id, 100})
		if id == "c" {
			then.Shards = append(then.Shards, shard{history.StateOK, id, 1, 7, 4500})
			o.parts = append(o.parts, part{4000, number, id, 100})
			continue
		}
		then.Shards = append(then.Shards, shard{history.StateOK, "c", 2, 9, 9500})
		o.parts = append(o.parts, part{4000, number, id, 60}, part{4000, number, "c", 40})
		w := write{Pass: 4000, Shard: number, Token: 7, Rows: 10}
		o.held[id] = append(o.held[id], w)
		if id == "b" {
			w.Refused = true
			o.late = append(o.late, w)
		}
	}
	o.ticks = []tick{then, before}
	o.parts = append(o.parts, part{6000, 0, "c", 30}) // when all was stopped
	return o
}

// TestJudge changes one thing at a time in an outcome that is right.
func TestJudge(t *testing.T) {
	t.Parallel()
	f, wrong := judge(right())
	if len(wrong) > 0 {
		t.Fatalf("a right outcome is judged wrong: %s", strings.Join(wrong, "; "))
	}
	if want := (figures{passes: 2, ok: 12, rerun: 4, first: 240, rest: 160, refused: 2}); f != want {
		t.Errorf("figures are %+v, want %+v", f, want)
	}
	then := func(o *outcome) *tick { return &o.ticks[0] } // not yet sorted
	for what, change := range map[string]func(*outcome){
		"a row twice":            func(o *outcome) { o.twice = 1 },
		"a row too few":          func(o *outcome) { o.parts[0].Rows-- },
		"no tick":                func(o *outcome) { o.ticks = nil },
		"a tick was not told":    func(o *outcome) { o.ticks = o.ticks[:1] },
		"a tick was told twice":  func(o *outcome) { o.ticks = append(o.ticks, *then(o)) },
		"a tick in between":      func(o *outcome) { then(o).Pass = 3000 },
		"a shard is not told of": func(o *outcome) { then(o).Shards = then(o).Shards[:5] },
		"a shard was skipped for no reason": func(o *outcome) {
			then(o).Shards[5].State = history.StateSkipped
			o.parts = slices.DeleteFunc(o.parts, func(p part) bool { return p == part{4000, 5, "c", 100} })
		},
		"a shard failed": func(o *outcome) { then(o).Shards[5].State = history.StateFailed },
		"a shard was run again though nothing happened to it": func(o *outcome) { then(o).Shards[2].Attempt = 2 },
		"an interrupted shard was not run again":              func(o *outcome) { then(o).Shards[0].Attempt = 1 },
		"the dead has run it":                                 func(o *outcome) { then(o).Shards[0].On = "a" },
		"the token did not grow":                              func(o *outcome) { then(o).Shards[0].Token = 7 },
		"the dead has done nothing":                           func(o *outcome) { o.held["a"][0].Shard = 2 },
		"within the lease":                                    func(o *outcome) { o.stood = 3000 },
		"a late write did not come":                           func(o *outcome) { o.late = o.late[:1] },
		"a late write was accepted":                           func(o *outcome) { o.late[1].Refused = false },
	} {
		o := right()
		change(&o)
		if _, wrong := judge(o); len(wrong) == 0 {
			t.Errorf("judge does not see: %s", what)
		}
	}
}

// A shard may be skipped during its previous run; then its rows are not processed.
func TestSkipped(t *testing.T) {
	t.Parallel()
	o := right()
	skipped, before := &o.ticks[0].Shards[5], &o.ticks[1].Shards[5]
	*skipped, before.Ended = shard{State: history.StateSkipped, On: "c", Token: 7}, 4500
	if _, wrong := judge(o); len(wrong) != 1 {
		t.Errorf("its rows were processed though it was skipped, and judge says: %v", wrong)
	}
	o.parts = slices.DeleteFunc(o.parts, func(p part) bool { return p == part{4000, 5, "c", 100} })
	if f, wrong := judge(o); len(wrong) > 0 || f.skipped != 1 || f.ok != 11 {
		t.Errorf("%+v, %v", f, wrong)
	}
}

func TestTick(t *testing.T) {
	t.Parallel()
	o := right()
	if got, want := o.ticks[0].String(), "c: 0* 1* 2 3* 4* 5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if o.ticks[0].even(3) || !o.ticks[1].even(3) || o.ticks[1].even(2) {
		t.Error("what is even?")
	}
	if clock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()) != "03:04:05" {
		t.Error("clock")
	}
}

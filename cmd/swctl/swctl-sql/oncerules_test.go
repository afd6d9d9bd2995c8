package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// testKeys has runs that are the same, and others.
func testKeys(t *testing.T, g target) {
	t.Helper()
	slot := g.newSlot(t)
	for _, test := range []struct {
		what   string
		change func(*singleworker.Run)
		want   error
	}{
		{"the first attempt", func(*singleworker.Run) {}, nil},
		{"a retry", func(r *singleworker.Run) { r.ID, r.Attempt = "run-2", 2 }, once.ErrDone},
		{"a rerun elsewhere", func(r *singleworker.Run) { r.ID, r.Token, r.InstanceID = "run-3", 6, "app-6" }, once.ErrDone},
		{"the tick in another zone", func(r *singleworker.Run) { r.Token, r.Tick = 6, r.Tick.UTC() }, once.ErrDone},
		{"the next tick", func(r *singleworker.Run) { r.Token, r.Tick = 6, r.Tick.Add(time.Millisecond) }, nil},
		{"a manual run", func(r *singleworker.Run) { r.Token, r.Manual, r.Request = 6, true, "q-1" }, nil},
		{"its retry", func(r *singleworker.Run) { r.Token, r.Manual, r.Request = 6, true, "q-1" }, once.ErrDone},
		{"another request", func(r *singleworker.Run) { r.Token, r.Manual, r.Request = 6, true, "q-2" }, nil},
		{"BeforeTick", func(r *singleworker.Run) { r.Token, r.BeforeTick = 6, true }, nil},
		{"BeforeTick again", func(r *singleworker.Run) { r.Token, r.BeforeTick = 6, true }, once.ErrDone},
		{"another shard, whose tokens are lower", func(r *singleworker.Run) { r.Slot, r.Token = r.Job+"[1]", 2 }, nil},
		{"its earlier owner", func(r *singleworker.Run) { r.Slot, r.Token = r.Job+"[1]", 1 }, once.ErrFenced},
		{"a slot of another case", func(r *singleworker.Run) { r.Slot, r.Token = strings.ToUpper(r.Slot), 1 }, nil},
		{"another group", func(r *singleworker.Run) { r.Group, r.Token = "accounting", 1 }, nil},
	} {
		run := runOf(slot, 1, 5, "run-1")
		test.change(run)
		err := once.Do(t.Context(), g.db, run, func(*sql.Tx) error { return nil })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.what, err, test.want)
		}
		if errors.Is(err, once.ErrFenced) && !strings.Contains(err.Error(), "DB.Reset") {
			t.Errorf("%s: the error names no remedy: %v", test.what, err)
		}
	}
}

// testSteps has a run that dies between two steps.
func testSteps(t *testing.T, g target) {
	t.Helper()
	slot, calls := g.newSlot(t), 0
	attempt := func(run *singleworker.Run, steps int) (done int) {
		for i := range steps {
			err := once.Step(t.Context(), g.db, run, "page-"+string(rune('a'+i)), func(tx *sql.Tx) error {
				calls++
				return g.effectOf(t.Context(), run)(tx)
			})
			if errors.Is(err, once.ErrDone) {
				done++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return done
	}
	if done := attempt(runOf(slot, 1, 1, "run-1"), 2); done != 0 {
		t.Errorf("%d steps of a new tick are done", done)
	}
	if done := attempt(runOf(slot, 1, 2, "run-2"), 4); done != 2 || calls != 4 || len(g.effects(t, slot)) != 4 {
		t.Errorf("the second attempt finds %d steps done, %d calls in all, effects %v", done, calls, g.effects(t, slot))
	}
	for _, name := range []string{"", "page 3", "ä", strings.Repeat("x", 91)} {
		if err := once.Step(t.Context(), g.db, runOf(slot, 1, 2, "run-2"), name, nil); err == nil {
			t.Errorf("a step %q is accepted", name)
		}
	}
}

// testWrap has handlers that find their tick done, and handlers that fail.
func testWrap(t *testing.T, g target) {
	t.Helper()
	slot, other := g.newSlot(t), &once.DoneError{}
	var fails error
	handler := once.Wrap(g.db, func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error {
		return errors.Join(g.effectOf(ctx, run)(tx), fails)
	})
	fails = other // of another database: it is an error here
	if err := handler(t.Context(), runOf(slot, 1, 1, "run-1")); !errors.Is(err, once.ErrDone) {
		t.Errorf("a handler that fails returned %v", err)
	}
	fails = nil
	for range 2 {
		if err := handler(t.Context(), runOf(slot, 1, 1, "run-2")); err != nil {
			t.Error(err)
		}
	}
	if got := g.effects(t, slot); len(got) != 1 {
		t.Errorf("effects %v, want one", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := handler(over, runOf(slot, 2, 1, "run-3")); !errors.Is(err, context.Canceled) {
		t.Errorf("a handler whose context has ended returned %v", err)
	}
	if err := handler(t.Context(), &singleworker.Run{Job: "daily"}); err == nil || !strings.Contains(err.Error(), "must set") {
		t.Errorf("a run without a tick: %v", err)
	}
}

func testPrune(t *testing.T, g target) {
	t.Helper()
	slot := g.newSlot(t)
	do := func(tick int64) error {
		run := runOf(slot, tick, 1, "run")
		run.Group = slot
		return once.Do(t.Context(), g.db, run, g.effectOf(t.Context(), run))
	}
	for tick := range int64(10) {
		if tick == 6 { // left out
			continue
		}
		if err := do(tick); err != nil {
			t.Fatal(err)
		}
	}
	for i, before := range []int64{6, 6, 3} {
		removed, err := g.db.Prune(t.Context(), slot, time.UnixMilli(1_000_000+before))
		if want := []int64{6, 0, 0}[i]; err != nil || removed != want {
			t.Errorf("pruned %d, %v; want %d", removed, err, want)
		}
	}
	for tick, want := range map[int64]error{2: once.ErrPruned, 5: once.ErrPruned, 6: nil, 7: once.ErrDone, 9: once.ErrDone, 10: nil} {
		if err := do(tick); !errors.Is(err, want) {
			t.Errorf("tick %d: %v, want %v", tick, err, want)
		}
	}
	if got := g.effects(t, slot); len(got) != 11 {
		t.Errorf("%d effects of 11 ticks", len(got))
	}
}

func testReset(t *testing.T, g target) {
	t.Helper()
	slot := g.newSlot(t)
	do := func(tick, token int64) error {
		run := runOf(slot, tick, token, "run")
		run.Group = slot
		return once.Do(t.Context(), g.db, run, g.effectOf(t.Context(), run))
	}
	if err := errors.Join(do(1, 900), do(2, 900)); err != nil {
		t.Fatal(err)
	}
	if err := do(3, 800); !errors.Is(err, once.ErrFenced) {
		t.Errorf("a lower token: %v", err)
	}
	if err := g.db.Reset(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	for tick, want := range map[int64]error{2: once.ErrDone, 3: nil} {
		if err := do(tick, 800); !errors.Is(err, want) {
			t.Errorf("tick %d after a reset: %v, want %v", tick, err, want)
		}
	}
}

// Who meets no tables, or newer ones, is told what to do.
func TestOnceWithOtherTables(t *testing.T) {
	t.Parallel()
	g := target{driver: "sqlite", dsn: "file:" + t.TempDir() + "/other.db", d: once.SQLite}
	g.raw, g.db = openOnce(t, g)
	nothing := func(*sql.Tx) error { return nil }
	if err := once.Do(t.Context(), g.db, runOf("x[0]", 1, 1, "run"), nothing); err == nil || !strings.Contains(err.Error(), "DB.Create") {
		t.Errorf("without tables: %v", err)
	}
	if err := g.db.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.exec(t, "INSERT INTO once_schema (version) VALUES (99)")
	_, db := openOnce(t, g)
	if err := once.Do(t.Context(), db, runOf("x[0]", 1, 1, "run"), nothing); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("tables of a newer version: %v", err)
	}
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// plainly is a resolver with a mistake: it reads, and does not raise the fence.
func plainly(g target) singleworker.Resolver {
	return func(ctx context.Context, run *singleworker.Run) (effects singleworker.Effects, found bool, err error) {
		err = g.raw.QueryRowContext(ctx, g.bound("SELECT run_id FROM once_ticks WHERE group_name=? AND slot=? AND tick_ms=?"),
			run.Group, run.Slot, run.Tick.UnixMilli()).Scan(&effects.RunID)
		if errors.Is(err, sql.ErrNoRows) {
			return effects, false, nil
		}
		return effects, err == nil, err
	}
}

// askDuring has a resolver asked while the transaction of an earlier owner is on its way, which is
// then committed. The next attempt trusts the answer: it does not look for the marker.
func askDuring(t *testing.T, g target, resolve singleworker.Resolver) (breaches []string) {
	t.Helper()
	slot := g.newSlot(t)
	early, next := runOf(slot, 1, 1, "run-1"), runOf(slot, 1, 2, "run-2")
	written, ended := make(chan struct{}), make(chan error, 1)
	answered := make(chan bool, 1)
	go func() {
		ended <- once.Do(t.Context(), g.db, early, func(tx *sql.Tx) error {
			err := g.effectOf(t.Context(), early)(tx)
			close(written)
			select {
			case found := <-answered: // it did not wait
				answered <- found
			case <-time.After(300 * time.Millisecond):
			}
			return err
		})
	}()
	<-written
	_, found, err := resolve(t.Context(), next)
	answered <- found
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		err = inTransaction(t.Context(), g, g.effectOf(t.Context(), next))
		breaches = append(breaches, fmt.Sprintf("an answer that was not final: %v", err))
	}
	if got := len(g.effects(t, slot)); got != 1 {
		breaches = append(breaches, fmt.Sprintf("%d effects of one tick", got))
	}
	return breaches
}

// testAsk has questions, and their answers.
func testAsk(t *testing.T, g target) {
	t.Helper()
	resolve := once.Resolver(g.db)
	t.Run("during a COMMIT", func(t *testing.T) {
		for _, breach := range askDuring(t, g, resolve) {
			t.Error(breach)
		}
	})
	t.Run("by a plain SELECT", func(t *testing.T) {
		if breaches := askDuring(t, g, plainly(g)); len(breaches) != 2 {
			t.Errorf("a resolver with a plain SELECT: %q, want two effects", breaches)
		}
	})
	slot := g.newSlot(t)
	done, late := runOf(slot, 1, 2, "run-1"), runOf(slot, 2, 2, "run-2")
	if err := once.Do(t.Context(), g.db, done, g.effectOf(t.Context(), done)); err != nil {
		t.Fatal(err)
	}
	effects, found, err := resolve(t.Context(), runOf(slot, 1, 3, "run-3"))
	if !found || err != nil || effects.RunID != "run-1" || effects.InstanceID != "app-2" || time.Since(effects.At) > time.Minute {
		t.Errorf("of a tick that is done: %+v, %v, %v", effects, found, err)
	}
	if effects, found, err = resolve(t.Context(), runOf(slot, 2, 3, "run-4")); found || err != nil {
		t.Errorf("of one that is not: %+v, %v, %v", effects, found, err)
	}
	if err := once.Do(t.Context(), g.db, late, g.effectOf(t.Context(), late)); !errors.Is(err, once.ErrFenced) {
		t.Errorf("after that answer, the interrupted run: %v, want ErrFenced", err)
	}
	if _, _, err := resolve(t.Context(), late); !errors.Is(err, once.ErrFenced) {
		t.Errorf("asked by an earlier owner: %v, want ErrFenced", err)
	}
	old := runOf(slot, 1, 4, "run-5")
	old.Group = slot // for itself
	if _, _, err := resolve(t.Context(), old); err != nil {
		t.Error(err)
	}
	if _, err := g.db.Prune(t.Context(), slot, old.Tick.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := resolve(t.Context(), old); found || !errors.Is(err, once.ErrPruned) {
		t.Errorf("of a tick that may have been pruned: %v, %v, want ErrPruned", found, err)
	}
}

// A resolver in SQLite finds effects while another process keeps the only lock of writers. It does
// not say that there are none before it has the lock.
func TestResolverBesideAWriter(t *testing.T) {
	t.Parallel()
	file := "file:" + filepath.Join(t.TempDir(), "once.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout"
	g := target{driver: "sqlite", dsn: file + "(20000)", d: once.SQLite}.open(t)
	_, hasty := openOnce(t, target{driver: "sqlite", dsn: file + "(50)", d: once.SQLite})
	slot := g.newSlot(t)
	if err := once.Do(t.Context(), g.db, runOf(slot, 1, 1, "run-1"), func(*sql.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	tx, err := g.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE once_fences SET token=token"); err != nil {
		t.Fatal(err)
	}
	resolve := once.Resolver(hasty)
	if effects, found, err := resolve(t.Context(), runOf(slot, 1, 2, "run-2")); err != nil || !found || effects.RunID != "run-1" {
		t.Errorf("effects that are there: %+v, %v, %v", effects, found, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, found, err := resolve(ctx, runOf(slot, 2, 2, "run-2")); err == nil || found {
		t.Errorf("effects that another process may be about to commit: %v, %v; want an error", found, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, found, err := resolve(t.Context(), runOf(slot, 2, 2, "run-2")); err != nil || found {
		t.Errorf("effects that are not there: %v, %v", found, err)
	}
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// A mistake is one that people make who write the same by hand.
type mistake struct {
	do               doer
	check            string // by which it must be found
	harmlessIfSerial bool   // where the database runs transactions as if one after the other
}

var mistakes = map[string]mistake{
	"marker before the transaction": {check: "failures", do: func(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error {
		if err := once.Do(ctx, g.db, run, func(*sql.Tx) error { return nil }); err != nil {
			return err
		}
		return inTransaction(ctx, g, f)
	}},
	"marker after the transaction": {check: "repeats", do: func(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error {
		if err := inTransaction(ctx, g, f); err != nil {
			return err
		}
		return once.Do(ctx, g.db, run, func(*sql.Tx) error { return nil })
	}},
	"no fence": {check: "late", do: func(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error {
		same := *run
		same.Token = 1 << 62
		return once.Do(ctx, g.db, &same, f)
	}},
	"fence after the body": {check: "owners", harmlessIfSerial: true, do: func(ctx context.Context, g target, run *singleworker.Run, f func(*sql.Tx) error) error {
		return inTransaction(ctx, g, func(tx *sql.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			return g.fence(ctx, tx, run)
		})
	}},
}

func inTransaction(ctx context.Context, g target, f func(*sql.Tx) error) error {
	tx, err := g.raw.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // as in once.Do
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// fence is the part of once.Do before the body.
func (g target) fence(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error {
	raise := map[once.Dialect]string{
		once.MySQL:    "ON DUPLICATE KEY UPDATE token=GREATEST(token,?)",
		once.SQLite:   "ON CONFLICT (group_name, slot) DO UPDATE SET token=MAX(token,?)",
		once.Postgres: "ON CONFLICT (group_name, slot) DO UPDATE SET token=GREATEST(once_fences.token,?)",
	}[g.d]
	_, err := tx.ExecContext(ctx, g.bound("INSERT INTO once_fences (group_name, slot, token, pruned_ms) VALUES (?,?,?,0) "+raise), run.Group, run.Slot, run.Token, run.Token)
	if err != nil {
		return err
	}
	var token int64
	err = tx.QueryRowContext(ctx, g.bound("SELECT token FROM once_fences WHERE group_name=? AND slot=?"), run.Group, run.Slot).Scan(&token)
	if err != nil {
		return err
	}
	if token > run.Token {
		return once.ErrFenced
	}
	done := &once.DoneError{}
	err = tx.QueryRowContext(ctx, g.bound("SELECT run_id FROM once_ticks WHERE group_name=? AND slot=? AND tick_ms=?"), run.Group, run.Slot, run.Tick.UnixMilli()).Scan(&done.RunID)
	if !errors.Is(err, sql.ErrNoRows) {
		return errors.Join(err, done)
	}
	_, err = tx.ExecContext(ctx, g.bound("INSERT INTO once_ticks (group_name, slot, tick_ms, request, step, run_id, instance_id, token, at_ms) VALUES (?,?,?,'','',?,'',?,0)"),
		run.Group, run.Slot, run.Tick.UnixMilli(), run.ID, run.Token)
	return err
}

// testMistake fails if ten rounds of the check have not found a mistake.
func testMistake(t *testing.T, g target, planted mistake) {
	t.Helper()
	for round := range 10 {
		var breaches []string
		t.Run(strconv.Itoa(round), func(t *testing.T) { breaches = checks[planted.check](t, g, planted.do) })
		if len(breaches) > 0 {
			t.Logf("round %d finds: %s", round, breaches[0])
			return
		}
	}
	t.Errorf("%s has not found it", planted.check)
}

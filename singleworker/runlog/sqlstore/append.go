package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// rowsAtOnce is how many rows a statement has: databases allow some 32,000 parameters.
const rowsAtOnce = 200

var (
	entryKey     = []string{"group_name", "slot", "incarnation", "entry_key"}
	entryColumns = []string{
		"seq", "job", "kind", "at_ms", "ok", "amended", "state", "reason", "tick_ms", "to_ms", "ticks", "manual", "instance_id", "token", "run_id",
		"attempt", "failures", "started_ms", "ended_ms", "error", "taken_from", "delayed_ms", "restarts", "not_begun", "number", "rev",
		"asked_by", "asked_reason", "past", "stopped_by", "stopped_reason",
		"effects_run_id", "effects_instance_id", "effects_ms",
	}
	positionKey     = []string{"group_name", "slot"}
	positionColumns = []string{"incarnation", "rev", "number", "last_key", "through_ms"}
)

// Append implements runlog.Store.
func (s *Store) Append(ctx context.Context, group string, b runlog.Batch) error {
	err := s.inTransaction(ctx, func(tx *sql.Tx) error {
		// It waits for the transaction of another reader, and then finds its number.
		result, err := tx.ExecContext(ctx, s.d.bound("UPDATE runlog_logs SET seq=?, cursor_zxid=?, appends=appends+1 WHERE group_name=? AND seq=?"),
			b.Seq(), b.Cursor, group, b.After)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, runlog.ErrConflict)
		}
		if err := s.appendEntries(ctx, tx, group, b.Entries); err != nil {
			return err
		}
		return s.appendPositions(ctx, tx, group, b)
	})
	if errors.Is(err, runlog.ErrConflict) {
		return runlog.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("sqlstore: append to the log of %s: %w", group, err)
	}
	return nil
}

func (s *Store) inTransaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (s *Store) appendEntries(ctx context.Context, tx *sql.Tx, group string, entries []runlog.Entry) error {
	latest := make(map[[3]any]runlog.Entry) // a statement must not write a row twice
	for _, e := range entries {
		latest[[3]any{e.Slot, e.Incarnation, e.Key}] = e
	}
	rows := slices.SortedFunc(maps.Values(latest), func(a, b runlog.Entry) int { return int(a.Seq - b.Seq) })
	for _, e := range rows {
		if e.Kind != runlog.Void {
			continue
		}
		_, err := tx.ExecContext(ctx, s.d.bound("DELETE FROM runlog_entries WHERE group_name=? AND slot=? AND incarnation=? AND entry_key=?"),
			group, e.Slot, e.Incarnation, e.Key)
		if err != nil {
			return err
		}
	}
	rows = slices.DeleteFunc(rows, func(e runlog.Entry) bool { return e.Kind == runlog.Void })
	for chunk := range slices.Chunk(rows, rowsAtOnce) {
		var args []any
		for _, e := range chunk {
			args = append(args, group, e.Slot, e.Incarnation, e.Key, e.Seq, e.Job, string(e.Kind), milli(e.At), number(e.OK()), number(e.Amended), e.State,
				string(e.Reason), milli(e.Tick), milli(e.To), e.Count, e.Manual, e.InstanceID, e.Token, e.RunID, e.Attempt, e.Failures, milli(e.Started),
				milli(e.Ended), e.Error, e.TakenFrom, e.DelayedMillis, e.Restarts, number(e.NotBegun), e.Number, e.Rev,
				e.AskedBy, e.AskedReason, string(e.Past), e.StoppedBy, e.StoppedReason, e.Effects.RunID, e.Effects.InstanceID, milli(e.Effects.At))
		}
		if _, err := tx.ExecContext(ctx, s.d.upsert("runlog_entries", entryKey, entryColumns, len(chunk)), args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) appendPositions(ctx context.Context, tx *sql.Tx, group string, b runlog.Batch) error {
	for _, e := range b.Entries {
		if _, again := b.Positions[e.Slot]; e.Kind == runlog.Gone && !again {
			if _, err := tx.ExecContext(ctx, s.d.bound("DELETE FROM runlog_positions WHERE group_name=? AND slot=?"), group, e.Slot); err != nil {
				return err
			}
		}
	}
	for slots := range slices.Chunk(slices.Sorted(maps.Keys(b.Positions)), rowsAtOnce) {
		var args []any
		for _, slot := range slots {
			p := b.Positions[slot]
			args = append(args, group, slot, p.Incarnation, p.Rev, p.Number, p.Key, p.Through)
		}
		if _, err := tx.ExecContext(ctx, s.d.upsert("runlog_positions", positionKey, positionColumns, len(slots)), args...); err != nil {
			return err
		}
	}
	return nil
}

// scan reads a row of runlog_entries: key without the group, and columns.
func scan(rows *sql.Rows) (e runlog.Entry, err error) {
	var kind, reason string
	var at, tick, to, started, ended, effects int64
	var ok, amended, notBegun int
	err = rows.Scan(&e.Slot, &e.Incarnation, &e.Key, &e.Seq, &e.Job, &kind, &at, &ok, &amended, &e.State, &reason, &tick, &to, &e.Count, &e.Manual,
		&e.InstanceID, &e.Token, &e.RunID, &e.Attempt, &e.Failures, &started, &ended, &e.Error, &e.TakenFrom, &e.DelayedMillis, &e.Restarts, &notBegun,
		&e.Number, &e.Rev, &e.AskedBy, &e.AskedReason, &e.Past, &e.StoppedBy, &e.StoppedReason,
		&e.Effects.RunID, &e.Effects.InstanceID, &effects)
	e.Kind, e.Reason, e.Amended = runlog.Kind(kind), history.Reason(reason), amended != 0
	e.NotBegun = notBegun != 0
	e.At, e.Tick, e.To, e.Started, e.Ended, e.Effects.At = timeOf(at), timeOf(tick), timeOf(to), timeOf(started), timeOf(ended), timeOf(effects)
	return e, err
}

// milli is a time as the tables have it.
func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

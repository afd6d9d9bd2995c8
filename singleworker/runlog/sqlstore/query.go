package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Entries implements runlog.Store. It holds a connection of the database until the loop ends.
func (s *Store) Entries(ctx context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		if err := s.entries(ctx, q, yield); err != nil {
			yield(runlog.Entry{}, fmt.Errorf("sqlstore: read the log of %s: %w", q.Group, err))
		}
	}
}

func (s *Store) entries(ctx context.Context, q runlog.Query, yield func(runlog.Entry, error) bool) (err error) {
	if err := s.check(ctx, false); err != nil {
		return err
	}
	where, args := conditions(q)
	text := "SELECT " + strings.Join(entryKey[1:], ",") + "," + strings.Join(entryColumns, ",") + " FROM runlog_entries WHERE " + where + " ORDER BY seq DESC"
	if q.Limit > 0 {
		text += " LIMIT " + strconv.Itoa(q.Limit)
	}
	rows, err := s.db.QueryContext(ctx, s.d.bound(text), args...)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if closed := errors.Join(rows.Err(), rows.Close()); !done {
			err = errors.Join(err, closed)
		}
	}()
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return err
		}
		if done = !yield(e, nil); done {
			return nil
		}
	}
	return nil
}

// conditions are what Query.Matches says, and the group.
func conditions(q runlog.Query) (where string, args []any) {
	where, args = "group_name=?", []any{q.Group}
	add := func(condition string, arg any) {
		where += " AND " + condition
		args = append(args, arg)
	}
	switch {
	case strings.ContainsAny(q.Slot, "[/"):
		add("slot=?", q.Slot)
	case q.Slot != "":
		add("job=?", q.Slot)
	}
	if !q.Since.IsZero() {
		add("at_ms>=?", q.Since.UnixMilli())
	}
	if !q.Until.IsZero() {
		add("at_ms<?", q.Until.UnixMilli())
	}
	if q.After > 0 {
		add("seq>?", q.After)
	}
	if q.Failed {
		add("ok=?", 0)
	}
	return where, args
}

// prunedAtOnce is how many numbers a transaction of Prune is about, so that readers wait for short
// ones only.
const prunedAtOnce = 10_000

// Prune implements runlog.Store.
func (s *Store) Prune(ctx context.Context, group string, r runlog.Retention) (removed int, err error) {
	if err := s.check(ctx, false); err != nil {
		return 0, err
	}
	if !r.Since.IsZero() {
		removed, err = s.pruneRange(ctx, "group_name=? AND at_ms<?", group, r.Since.UnixMilli())
	}
	if err == nil && r.PerSlot > 0 {
		var more int
		more, err = s.pruneSlots(ctx, group, r.PerSlot)
		removed += more
	}
	if err != nil {
		err = fmt.Errorf("sqlstore: prune the log of %s: %w", group, err)
	}
	return removed, err
}

// pruneRange removes what meets a condition.
func (s *Store) pruneRange(ctx context.Context, where string, args ...any) (removed int, err error) {
	var first, last sql.NullInt64
	err = s.db.QueryRowContext(ctx, s.d.bound("SELECT MIN(seq), MAX(seq) FROM runlog_entries WHERE "+where), args...).Scan(&first, &last)
	for from := first.Int64; err == nil && first.Valid && from <= last.Int64; from += prunedAtOnce {
		var result sql.Result
		result, err = s.db.ExecContext(ctx, s.d.bound("DELETE FROM runlog_entries WHERE "+where+" AND seq>=? AND seq<?"),
			append(slices.Clip(args), from, min(from+prunedAtOnce, last.Int64+1))...)
		if err == nil {
			var n int64
			n, err = result.RowsAffected()
			removed += int(n)
		}
	}
	return removed, err
}

func (s *Store) pruneSlots(ctx context.Context, group string, keep int) (removed int, err error) {
	slots, err := s.fullSlots(ctx, group, keep)
	for _, slot := range slots {
		var oldest int64
		err = s.db.QueryRowContext(ctx, s.d.bound("SELECT seq FROM runlog_entries WHERE group_name=? AND slot=? ORDER BY seq DESC LIMIT 1 OFFSET "+strconv.Itoa(keep-1)),
			group, slot).Scan(&oldest)
		if err != nil {
			break
		}
		var n int
		n, err = s.pruneRange(ctx, "group_name=? AND slot=? AND seq<?", group, slot, oldest)
		if removed += n; err != nil {
			break
		}
	}
	return removed, err
}

// fullSlots are those with more entries than are to be kept.
func (s *Store) fullSlots(ctx context.Context, group string, keep int) (slots []string, err error) {
	rows, err := s.db.QueryContext(ctx, s.d.bound("SELECT slot FROM runlog_entries WHERE group_name=? GROUP BY slot HAVING COUNT(*)>?"), group, keep)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		var slot string
		if err := rows.Scan(&slot); err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	return slots, nil
}

package once

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// A Marker says that a transaction of a tick was committed.
type Marker struct {
	Slot       string // the job, or the shard, such as "report[3]", or the job at an instance: "report/app-1"
	Tick       time.Time
	Request    string // of a manual run
	Step       string // of Step; empty for Do
	BeforeTick bool

	RunID, InstanceID string // the run that wrote it
	Token             int64
	At                time.Time // when, by the instance's clock
}

// A Fence is the largest token that has written in a slot.
type Fence struct {
	Slot  string
	Token int64
	// Pruned is the first tick whose marker is kept, and First the first one that has a marker. They
	// are zero if there is none.
	Pruned, First time.Time
}

// Markers lists the markers of a group, the newest tick first, those with one tick by slot, request
// and step. They are read while the loop goes on, which holds a connection, and with SQLite, unless
// it has a write-ahead log, keeps others from writing. The last element has the error that ended
// it.
func (db *DB) Markers(ctx context.Context, group string) iter.Seq2[Marker, error] {
	return func(yield func(Marker, error) bool) {
		if err := db.check(ctx); err != nil {
			yield(Marker{}, err)
			return
		}
		if err := db.markers(ctx, group, func(m Marker) bool { return yield(m, nil) }); err != nil {
			yield(Marker{}, fmt.Errorf("once: read the markers of %s: %w", group, err))
		}
	}
}

func (db *DB) markers(ctx context.Context, group string, yield func(Marker) bool) error {
	rows, err := db.sql.QueryContext(ctx, db.d.bound(`SELECT slot, tick_ms, request, step, run_id, instance_id, token, at_ms FROM once_ticks
		WHERE group_name=? ORDER BY tick_ms DESC, slot, request, step`), group)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var m Marker
		var tick, at int64
		if err := rows.Scan(&m.Slot, &tick, &m.Request, &m.Step, &m.RunID, &m.InstanceID, &m.Token, &at); err != nil {
			return err
		}
		m.Tick, m.At = time.UnixMilli(tick).UTC(), time.UnixMilli(at).UTC()
		before, step, _ := strings.Cut(m.Step, "/")
		m.BeforeTick, m.Step = before != "", step
		if !yield(m) {
			return nil
		}
	}
	return rows.Err()
}

// Has reports whether a tick has a marker: of Do, or of a Step at least. BeforeTick's do not count.
// request names a manual run.
func (db *DB) Has(ctx context.Context, group, slot string, tick time.Time, request string) (bool, error) {
	if err := db.check(ctx); err != nil {
		return false, err
	}
	var one int
	err := db.sql.QueryRowContext(ctx, db.d.bound("SELECT 1 FROM once_ticks WHERE group_name=? AND slot=? AND tick_ms=? AND request=? AND step NOT LIKE 'before%' LIMIT 1"),
		group, slot, tick.UnixMilli(), request).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("once: look for a marker of %s: %w", slot, err)
	}
	return true, nil
}

// Fences lists the fences of a group, by slot.
func (db *DB) Fences(ctx context.Context, group string) (fences []Fence, err error) {
	if err = db.check(ctx); err != nil {
		return nil, err
	}
	if fences, err = db.fences(ctx, group); err != nil {
		return nil, fmt.Errorf("once: read the fences of %s: %w", group, err)
	}
	return fences, nil
}

func (db *DB) fences(ctx context.Context, group string) (fences []Fence, err error) {
	rows, err := db.sql.QueryContext(ctx, db.d.bound(`SELECT f.slot, f.token, f.pruned_ms, t.first_ms FROM once_fences f
		LEFT JOIN (SELECT slot, MIN(tick_ms) AS first_ms FROM once_ticks WHERE group_name=? GROUP BY slot) t ON t.slot=f.slot
		WHERE f.group_name=? ORDER BY f.slot`), group, group)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f Fence
		var pruned int64
		var first sql.NullInt64
		if err := rows.Scan(&f.Slot, &f.Token, &pruned, &first); err != nil {
			return nil, err
		}
		if pruned != 0 {
			f.Pruned = time.UnixMilli(pruned).UTC()
		}
		if first.Valid {
			f.First = time.UnixMilli(first.Int64).UTC()
		}
		fences = append(fences, f)
	}
	return fences, rows.Err()
}

package once

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// schema is the version of the tables.
const schema = 1

// DB is a database with the tables of this package. It can be used concurrently.
type DB struct {
	sql *sql.DB
	d   Dialect

	checked atomic.Bool // the tables have this version
}

// New returns the DB of a database, which stays the caller's. Nothing is read or created yet.
func New(db *sql.DB, d Dialect) (*DB, error) {
	if d < Postgres || d > SQLite {
		return nil, fmt.Errorf("once: %v is not a dialect: want Postgres, MySQL or SQLite", d)
	}
	return &DB{sql: db, d: d}, nil
}

// Create creates the tables that are missing. Several processes may do so at once. Where a tool
// creates tables, give it the statements of Dialect.Schema.
func (db *DB) Create(ctx context.Context) error {
	for _, statement := range db.d.Schema() {
		_, err := db.sql.ExecContext(ctx, statement)
		if err != nil {
			_, err = db.sql.ExecContext(ctx, statement) // which now finds what somebody else was making
		}
		if err != nil {
			return fmt.Errorf("once: create the tables, by %s: %w", strings.Join(strings.Fields(statement), " "), err)
		}
	}
	return db.check(ctx)
}

// check reads the version of the tables, until it has been right once.
func (db *DB) check(ctx context.Context) error {
	if db.checked.Load() {
		return nil
	}
	var found int
	err := db.sql.QueryRowContext(ctx, "SELECT MAX(version) FROM once_schema").Scan(&found)
	switch {
	case err != nil:
		return fmt.Errorf("once: the database has no tables of this package that can be read; create them, by DB.Create: %w", err)
	case found != schema:
		return fmt.Errorf("once: the tables are of version %d, this program knows %d: upgrade the program, or finish its upgrade", found, schema)
	}
	db.checked.Store(true)
	return nil
}

// Prune removes the markers of a group's ticks before a time, and returns how many. From then on, a
// run of such a tick is refused with ErrPruned. So before must be older than any tick that may
// still be run or repeated: a month ago, for example, from a job of its own every day. It goes
// through the slots one after the other, and makes no transaction wait for more than one statement.
// It may be repeated after an error, and an earlier time than before changes nothing.
func (db *DB) Prune(ctx context.Context, group string, before time.Time) (removed int64, err error) {
	if err := db.check(ctx); err != nil {
		return 0, err
	}
	slots, err := db.slots(ctx, group)
	for _, slot := range slots {
		if err != nil {
			break
		}
		var n int64
		n, err = db.pruneSlot(ctx, group, slot, before.UnixMilli())
		removed += n
	}
	if err != nil {
		err = fmt.Errorf("once: prune the markers of %s: %w", group, err)
	}
	return removed, err
}

// pruneSlot first has the slot's runs refuse such ticks: a run in progress holds the fence.
func (db *DB) pruneSlot(ctx context.Context, group, slot string, before int64) (removed int64, err error) {
	_, err = db.sql.ExecContext(ctx, db.d.bound("UPDATE once_fences SET pruned_ms=? WHERE group_name=? AND slot=? AND pruned_ms<?"), before, group, slot, before)
	if err != nil {
		return 0, err
	}
	result, err := db.sql.ExecContext(ctx, db.d.bound("DELETE FROM once_ticks WHERE group_name=? AND slot=? AND tick_ms<?"), group, slot, before)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (db *DB) slots(ctx context.Context, group string) (slots []string, err error) {
	rows, err := db.sql.QueryContext(ctx, db.d.bound("SELECT slot FROM once_fences WHERE group_name=?"), group)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var slot string
		if err := rows.Scan(&slot); err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	return slots, rows.Err()
}

// Reset sets the tokens of a group's fences to 0, for owners whose tokens are lower than before:
// after ZooKeeper was restored from an older backup, or replaced, or the group cleared. The markers
// stay, so that no tick is done twice. No instance of the group may run meanwhile: one of before
// would not be fenced off.
func (db *DB) Reset(ctx context.Context, group string) error {
	_, err := db.Lower(ctx, group, 0)
	return err
}

// Lower is Reset for a group of which the next token is known to be larger than token: it sets the
// fences above that to it, and returns how many those were. The others stay.
func (db *DB) Lower(ctx context.Context, group string, token int64) (lowered int64, err error) {
	if err := db.check(ctx); err != nil {
		return 0, err
	}
	result, err := db.sql.ExecContext(ctx, db.d.bound("UPDATE once_fences SET token=? WHERE group_name=? AND token>?"), token, group, token)
	if err == nil {
		lowered, err = result.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("once: lower the fences of %s: %w", group, err)
	}
	return lowered, nil
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"github.com/swjobs/singleworker/singleworker"
)

// schema is SQLite's. For PostgreSQL, INTEGER becomes BIGINT: a token has 64 bits.
const schema = `
CREATE TABLE item (
	id   INTEGER PRIMARY KEY,
	pass INTEGER NOT NULL DEFAULT 0 -- the tick for which the row was processed last
);
CREATE TABLE shard (
	number INTEGER PRIMARY KEY,
	token  INTEGER NOT NULL -- the greatest one that has come
);
CREATE TABLE done ( -- what the demonstration is judged by: a line whenever a row is processed
	id     INTEGER NOT NULL,
	pass   INTEGER NOT NULL,
	writer TEXT NOT NULL
);`

// Tokens are only comparable within a shard, so there is one per shard and not one per row: when
// Job.Shards changes, a row moves to another shard, whose token may be smaller. PostgreSQL accepts
// the same statement, with $1 and $2.
const (
	put = `
INSERT INTO shard (number, token) VALUES (?, ?)
ON CONFLICT (number) DO UPDATE SET token = excluded.token`

	// Not "<": an owner writes many times with one token.
	fence = `
WHERE shard.token <= excluded.token`
)

// errFenced is returned if a later owner of the shard has begun, so this run's write was refused.
var errFenced = errors.New("fenced off")

// pass returns the number of a tick in the table.
func pass(run *singleworker.Run) int64 { return run.Tick.UnixMilli() }

// A table is the handler's interface to the database.
type table interface {
	begin(ctx context.Context, run *singleworker.Run) error
	left(ctx context.Context, run *singleworker.Run, limit int) (ids []int64, err error)
	mark(ctx context.Context, run *singleworker.Run, ids []int64) error
}

// rowsJob is the handler: it processes the rows of its shard in batches. The second attempt of a
// tick continues where the first one stopped, because the table shows which rows are left.
func rowsJob(t table) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		batch := 10
		if p := run.Shard.Parameter; p != "" {
			var err error
			if batch, err = strconv.Atoi(p); err != nil || batch < 1 {
				return fmt.Errorf("parameter %q of shard %d is not a valid batch size", p, run.Shard.Index)
			}
		}
		// First, so that no write of an earlier owner is accepted after the first read.
		if err := t.begin(ctx, run); err != nil {
			return err
		}
		for {
			ids, err := t.left(ctx, run, batch)
			if err != nil || len(ids) == 0 {
				return err
			}
			// The actual work, which may take long, belongs here, outside a transaction: a
			// process that is paused inside one makes everyone else wait for its locks.
			if err := t.mark(ctx, run, ids); err != nil {
				return err
			}
		}
	}
}

// A store is the table in a database.
type store struct {
	db    *sql.DB
	token string // put+fence; without fence only to show what happens then
}

// openStore opens the database in a file that several processes share: readers do not wait, and a
// writer waits up to 10 s for another one.
func openStore(path, token string) (*store, error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_busy_timeout=10000&_journal_mode=WAL"}
	db, err := sql.Open("sqlite3", file.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &store{db: db, token: token}, nil
}

// create creates the tables, and rows with the ids from 1 to n.
func (s *store) create(ctx context.Context, n int) error {
	_, err := s.db.ExecContext(ctx, schema)
	if err == nil {
		_, err = s.db.ExecContext(ctx, `
WITH RECURSIVE number (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM number WHERE id < ?)
INSERT INTO item (id) SELECT id FROM number`, n)
	}
	if err != nil {
		return fmt.Errorf("create %d rows: %w", n, err)
	}
	return nil
}

// begin stores the run's token: from now on, earlier owners of the shard are refused.
func (s *store) begin(ctx context.Context, run *singleworker.Run) error {
	return s.fenced(ctx, run, func(*sql.Tx) error { return nil })
}

// left returns the first rows of the shard that are still to be processed for the tick.
func (s *store) left(ctx context.Context, run *singleworker.Run, limit int) (ids []int64, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id FROM item WHERE id % ? = ? AND pass < ? ORDER BY id LIMIT ?`,
		run.Shard.Total, run.Shard.Index, pass(run), limit)
	if err != nil {
		return nil, fmt.Errorf("what is left of shard %d: %w", run.Shard.Index, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("what is left of shard %d: %w", run.Shard.Index, err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// mark marks rows as processed, or returns errFenced and changes nothing.
func (s *store) mark(ctx context.Context, run *singleworker.Run, ids []int64) error {
	return s.fenced(ctx, run, func(tx *sql.Tx) error {
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, `UPDATE item SET pass = ? WHERE id = ?`, pass(run), id); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO done (id, pass, writer) VALUES (?, ?, ?)`, id, pass(run), run.InstanceID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// fenced writes in a transaction that begins with the token: changing that row locks it, so no
// other writer can overtake, and everything later is fenced, too.
func (s *store) fenced(ctx context.Context, run *singleworker.Run, write func(*sql.Tx) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("shard %d: nothing written: %w", run.Shard.Index, err)
		}
	}()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after Commit; otherwise err has the reason
	result, err := tx.ExecContext(ctx, s.token, run.Shard.Index, run.Token)
	if err != nil {
		return err
	}
	accepted, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if accepted == 0 {
		return fmt.Errorf("%w: the shard has had a larger token than this run's %d", errFenced, run.Token)
	}
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// A part holds one instance's rows of one shard in one pass.
type part struct {
	Pass   int64
	Shard  int
	Writer string
	Rows   int
}

// load reads which instance has processed which rows, and how many rows were processed more than
// once in a pass.
func (s *store) load(ctx context.Context) (parts []part, twice int, err error) {
	err = s.db.QueryRowContext(ctx, `
SELECT COUNT(*) FROM (SELECT 1 FROM done GROUP BY id, pass HAVING COUNT(*) > 1)`).Scan(&twice)
	if err != nil {
		return nil, 0, fmt.Errorf("read what was done: %w", err)
	}
	rows, err := s.db.QueryContext(ctx, `
SELECT pass, id % ?, writer, COUNT(*) FROM done GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, shards)
	if err != nil {
		return nil, 0, fmt.Errorf("read what was done: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p part
		if err := rows.Scan(&p.Pass, &p.Shard, &p.Writer, &p.Rows); err != nil {
			return nil, 0, fmt.Errorf("read what was done: %w", err)
		}
		parts = append(parts, p)
	}
	return parts, twice, rows.Err()
}

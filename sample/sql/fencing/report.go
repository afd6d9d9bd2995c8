package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// schema is SQLite's. For PostgreSQL, INTEGER becomes BIGINT: a token has 64 bits.
const schema = `
CREATE TABLE orders (
	amount INTEGER NOT NULL
);
CREATE TABLE report (
	name   TEXT PRIMARY KEY,
	total  INTEGER NOT NULL,
	writer TEXT NOT NULL,
	token  INTEGER NOT NULL -- that of the run which wrote the row
);
CREATE TABLE report_history (
	name   TEXT NOT NULL,
	total  INTEGER NOT NULL,
	writer TEXT NOT NULL
);`

// PostgreSQL takes the same statement, with $1 to $4 for the question marks.
const upsert = `
INSERT INTO report (name, total, writer, token) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET total = excluded.total, writer = excluded.writer, token = excluded.token`

// A report is a row of the table.
type report struct {
	Name   string `json:"name"`
	Total  int64  `json:"total"`
	Writer string `json:"writer"` // the instance
	Token  int64  `json:"token"`  // of the run
}

// A store is the target of the job: a database.
type store struct {
	db     *sql.DB
	fenced *once.DB // nil only to show what happens without
}

// openStore opens the database in a file that several processes share: a writer
// waits up to 10 s for another one.
func openStore(path string, fenced bool) (s *store, err error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_busy_timeout=10000"}
	s = &store{}
	if s.db, err = sql.Open("sqlite3", file.String()); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if fenced {
		s.fenced, err = once.New(s.db, once.SQLite)
	}
	return s, err
}

// reportJob is the handler: it adds up the orders and saves the sum. Reading and computing, which
// may take long, are outside the transaction of save: a process that is paused inside a transaction
// makes everyone else wait for its locks.
func reportJob(
	sum func(context.Context) (int64, error), save func(context.Context, *singleworker.Run, int64) error,
) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		total, err := sum(ctx)
		if err != nil {
			return err
		}
		err = save(ctx, run, total)
		if errors.Is(err, once.ErrDone) { // by an earlier attempt, whose result was lost
			return nil
		}
		return err
	}
}

// reportOf is the row that a run writes.
func reportOf(run *singleworker.Run, total int64) report {
	return report{Name: run.Job, Total: total, Writer: run.InstanceID, Token: run.Token}
}

// sum adds up the orders.
func (s *store) sum(ctx context.Context) (total int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(amount), 0) FROM orders`).Scan(&total)
	if err != nil {
		return 0, fmt.Errorf("add up the orders: %w", err)
	}
	return total, nil
}

// save writes a run's report. It returns once.ErrFenced, and writes nothing, if a later owner of
// the job has written.
func (s *store) save(ctx context.Context, run *singleworker.Run, total int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("report %s not written: %w", run.Job, err)
		}
	}()
	r := reportOf(run, total)
	write := func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, upsert, r.Name, r.Total, r.Writer, r.Token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO report_history (name, total, writer) VALUES (?, ?, ?)`, r.Name, r.Total, r.Writer)
		return err
	}
	if s.fenced != nil {
		return once.Do(ctx, s.fenced, run, write)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after Commit; otherwise err has the reason
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// create creates the tables.
func (s *store) create(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	if s.fenced == nil {
		return nil
	}
	return s.fenced.Create(ctx)
}

// order adds an order.
func (s *store) order(ctx context.Context, amount int64) error {
	if _, err := s.db.ExecContext(ctx, `INSERT INTO orders (amount) VALUES (?)`, amount); err != nil {
		return fmt.Errorf("add an order: %w", err)
	}
	return nil
}

// load reads the report, and the number of its history entries per writer.
func (s *store) load(ctx context.Context) (r report, history map[string]int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT name, total, writer, token FROM report WHERE name = ?`, job).
		Scan(&r.Name, &r.Total, &r.Writer, &r.Token)
	if err != nil {
		return r, nil, fmt.Errorf("read report %s: %w", job, err)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT writer, COUNT(*) FROM report_history WHERE name = ? GROUP BY writer`, job)
	if err != nil {
		return r, nil, fmt.Errorf("read the history of report %s: %w", job, err)
	}
	defer rows.Close()
	history = map[string]int{}
	for rows.Next() {
		var writer string
		var n int
		if err := rows.Scan(&writer, &n); err != nil {
			return r, nil, fmt.Errorf("read the history of report %s: %w", job, err)
		}
		history[writer] = n
	}
	return r, history, rows.Err()
}

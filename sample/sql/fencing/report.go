package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"github.com/swjobs/singleworker/singleworker"
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
const (
	upsert = `
INSERT INTO report (name, total, writer, token) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET total = excluded.total, writer = excluded.writer, token = excluded.token`

	// Not "<": an owner writes many times with one token.
	fence = `
WHERE report.token <= excluded.token`
)

// errFenced is returned if a later owner of the job has written, so this run's write was refused.
var errFenced = errors.New("fenced off")

// A report is a row of the table.
type report struct {
	Name   string `json:"name"`
	Total  int64  `json:"total"`
	Writer string `json:"writer"` // the instance
	Token  int64  `json:"token"`  // of the run
}

// A store is the target of the job: a database, and the statement that writes to it.
type store struct {
	db    *sql.DB
	write string // upsert+fence; without fence only to show what happens then
}

// openStore opens the database in a file that several processes share: a writer
// waits up to 10 s for another one.
func openStore(path, write string) (*store, error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_busy_timeout=10000"}
	db, err := sql.Open("sqlite3", file.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &store{db: db, write: write}, nil
}

// reportJob is the handler: it adds up the orders and saves the sum. Reading and computing, which
// may take long, are outside the transaction of save: a process that is paused inside a transaction
// makes everyone else wait for its locks.
func reportJob(
	sum func(context.Context) (int64, error), save func(context.Context, report) error,
) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		total, err := sum(ctx)
		if err != nil {
			return err
		}
		return save(ctx, report{Name: run.Job, Total: total, Writer: run.InstanceID, Token: run.Token})
	}
}

// sum adds up the orders.
func (s *store) sum(ctx context.Context) (total int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(amount), 0) FROM orders`).Scan(&total)
	if err != nil {
		return 0, fmt.Errorf("add up the orders: %w", err)
	}
	return total, nil
}

// save writes a report, or returns errFenced and writes nothing.
func (s *store) save(ctx context.Context, r report) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("report %s not written: %w", r.Name, err)
		}
	}()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after Commit; otherwise err has the reason

	// The row with the token comes first: changing it locks it, so no other writer can
	// overtake, and everything later in the transaction is fenced, too.
	result, err := tx.ExecContext(ctx, s.write, r.Name, r.Total, r.Writer, r.Token)
	if err != nil {
		return err
	}
	written, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if written == 0 {
		return fmt.Errorf("%w: the row has a larger token than this run's %d, because the job has another owner now; "+
			"do not retry, its runs write the report", errFenced, r.Token)
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO report_history (name, total, writer) VALUES (?, ?, ?)`, r.Name, r.Total, r.Writer)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// create creates the tables.
func (s *store) create(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
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

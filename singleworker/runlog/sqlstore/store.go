package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// schema is the version of the tables that this package writes. Those before were never released.
const schema = 6

// Store keeps logs in a database.
type Store struct {
	db *sql.DB
	d  Dialect

	mu      sync.Mutex
	checked bool // the tables have this version
}

var _ runlog.Store = (*Store)(nil)

// New returns the Store of a database, which belongs to it: Close closes it. Nothing is read or
// created yet.
func New(db *sql.DB, d Dialect) (*Store, error) {
	if d < Postgres || d > SQLite {
		return nil, fmt.Errorf("sqlstore: %v is not a dialect: want Postgres, MySQL or SQLite", d)
	}
	return &Store{db: db, d: d}, nil
}

// Close implements runlog.Store.
func (s *Store) Close() error { return s.db.Close() }

// check finds out the version of the tables, and creates them if that is wanted.
func (s *Store) check(ctx context.Context, create bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checked {
		return nil
	}
	found, err := s.version(ctx)
	if create && err != nil {
		if err := s.create(ctx); err != nil {
			return err
		}
		found, err = s.version(ctx)
	}
	switch {
	case err != nil:
		return fmt.Errorf("sqlstore: the database has no run log that can be read; a reader (swctl runlog) creates the tables: %w", err)
	case found > schema:
		return &runlog.SchemaError{Found: found, Known: schema}
	case found < schema:
		return fmt.Errorf("sqlstore: the tables are of version %d, from before the first release, and cannot be continued: drop runlog_schema, runlog_logs, "+
			"runlog_positions and runlog_entries", found)
	}
	s.checked = true
	return nil
}

func (s *Store) version(ctx context.Context) (version int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT version FROM runlog_schema ORDER BY version DESC LIMIT 1").Scan(&version)
	return version, err
}

// create creates the tables. Others may do the same at the same time: their work fails here, and is
// not needed then.
func (s *Store) create(ctx context.Context) error {
	for _, statement := range s.d.tables() {
		_, err := s.db.ExecContext(ctx, statement)
		if err != nil && !s.made(ctx, statement) {
			_, err = s.db.ExecContext(ctx, statement) // which now finds what somebody else was making
		}
		if err != nil && !s.made(ctx, statement) {
			return fmt.Errorf("sqlstore: create the tables, by %s: %w", strings.Join(strings.Fields(statement), " "), err)
		}
	}
	if _, err := s.db.ExecContext(ctx, s.d.insertMissing("runlog_schema", "version"), schema); err != nil {
		return fmt.Errorf("sqlstore: create the tables: %w", err)
	}
	return nil
}

// made reports whether a statement's object is there.
func (s *Store) made(ctx context.Context, statement string) bool {
	var n int
	words := strings.Fields(strings.Replace(statement, "IF NOT EXISTS ", "", 1))
	if words[1] == "TABLE" {
		return s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+words[2]+" WHERE 1=0").Scan(&n) == nil
	}
	if s.d != MySQL {
		return false
	}
	err := s.db.QueryRowContext(ctx,
		"SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name='runlog_entries' AND index_name=?", words[2]).Scan(&n)
	return err == nil && n > 0
}

// Load implements runlog.Store. It creates the tables that are missing.
func (s *Store) Load(ctx context.Context, group string) (runlog.State, error) {
	if err := s.check(ctx, true); err != nil {
		return runlog.State{}, err
	}
	if len(group) > groupSize {
		return runlog.State{}, fmt.Errorf("sqlstore: the name of the group is longer than %d bytes", groupSize)
	}
	state := runlog.State{Positions: make(map[string]runlog.Position)}
	_, err := s.db.ExecContext(ctx, s.d.insertMissing("runlog_logs", "group_name", "seq", "cursor_zxid", "appends"), group, 0, 0, 0)
	if err == nil {
		// Before the positions: if another reader appends something between the two, the number is too
		// old, and Append is refused.
		err = s.db.QueryRowContext(ctx, s.d.bound("SELECT seq, cursor_zxid FROM runlog_logs WHERE group_name=?"), group).Scan(&state.Seq, &state.Cursor)
	}
	if err == nil {
		err = s.positions(ctx, group, state.Positions)
	}
	if err != nil {
		return runlog.State{}, fmt.Errorf("sqlstore: load the log of %s: %w", group, err)
	}
	return state, nil
}

func (s *Store) positions(ctx context.Context, group string, all map[string]runlog.Position) (err error) {
	rows, err := s.db.QueryContext(ctx, s.d.bound("SELECT slot, incarnation, rev, number, last_key, through_ms FROM runlog_positions WHERE group_name=?"), group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		var slot string
		var p runlog.Position
		if err := rows.Scan(&slot, &p.Incarnation, &p.Rev, &p.Number, &p.Key, &p.Through); err != nil {
			return err
		}
		all[slot] = p
	}
	return nil
}

// Seq implements runlog.Store.
func (s *Store) Seq(ctx context.Context, group string) (seq int64, err error) {
	if err := s.check(ctx, false); err != nil {
		return 0, err
	}
	err = s.db.QueryRowContext(ctx, s.d.bound("SELECT seq FROM runlog_logs WHERE group_name=?"), group).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

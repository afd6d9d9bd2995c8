package main

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// alter changes tables behind the store's back.
func alter(t *testing.T, address string, statements ...string) {
	t.Helper()
	driver, text := "pgx", address
	switch parsed, err := url.Parse(address); {
	case err != nil:
		t.Fatal(err)
	case parsed.Scheme == "sqlite":
		driver, text = "sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(parsed.Path)}).String()
	case parsed.Scheme == "mariadb":
		driver, text = "mysql", parsed.User.String()+"@tcp("+parsed.Host+")"+parsed.Path
	}
	db, err := sql.Open(driver, text)
	for _, statement := range statements {
		if err == nil {
			_, err = db.ExecContext(t.Context(), statement)
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// The tables as older commits made them, first without not_begun, then with it as a part of version 1.
var (
	without = []string{"ALTER TABLE runlog_entries DROP COLUMN not_begun", "DELETE FROM runlog_schema WHERE version>1"}
	within  = []string{"DELETE FROM runlog_schema WHERE version>1"}
)

// What an older commit has made continues to work: the next reader migrates it, and who only reads says so before.
func TestTablesOfOlderCommits(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{"without not_begun": without, "with it, as version 1": within} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const group = "billing"
			address := "sqlite:" + filepath.Join(t.TempDir(), "runlog.db")
			open := opener(t, address)
			entry := func(seq int64, notBegun bool) runlog.Entry {
				at := time.Unix(seq, 0).UTC()
				return runlog.Entry{
					Seq: seq, Slot: "report", Job: "report", Incarnation: 7, Key: at.String(), Kind: runlog.Ran, At: at,
					Entry: admin.Entry{To: at, Count: 1, Run: admin.Run{Tick: at, State: admin.RunInterrupted, NotBegun: notBegun}},
				}
			}
			appended := func(s runlog.Store, after int64, e runlog.Entry) {
				t.Helper()
				if _, err := s.Load(t.Context(), group); err != nil {
					t.Fatal(err)
				}
				if err := s.Append(t.Context(), group, runlog.Batch{After: after, Cursor: after + 1, Entries: []runlog.Entry{e}}); err != nil {
					t.Fatal(err)
				}
			}
			was := open()
			appended(was, 0, entry(1, false))
			if err := was.Close(); err != nil {
				t.Fatal(err)
			}
			alter(t, address, statements...)

			s := open()
			defer s.Close()
			for _, err := range s.Entries(t.Context(), runlog.Query{Group: group}) {
				if err == nil || !strings.Contains(err.Error(), "swctl runlog") {
					t.Errorf("a query before the migration: %v", err)
				}
			}
			appended(s, 1, entry(2, true))
			var got []bool
			for e, err := range s.Entries(t.Context(), runlog.Query{Group: group}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.NotBegun)
			}
			if len(got) != 2 || !got[0] || got[1] {
				t.Errorf("not begun, the latest first: %v, want true and false", got)
			}
		})
	}
}

// Who may not change the tables is told what would.
func TestTablesThatMayNotBeChanged(t *testing.T) {
	t.Parallel()
	address := "sqlite:" + filepath.Join(t.TempDir(), "runlog.db")
	s := opener(t, address)()
	defer s.Close()
	alter(t, address, "CREATE TABLE runlog_schema (version INTEGER PRIMARY KEY)", "INSERT INTO runlog_schema VALUES (1)", "CREATE VIEW runlog_entries AS SELECT 1 AS group_name")
	if _, err := s.Load(t.Context(), "billing"); err == nil || !strings.Contains(err.Error(), "ALTER TABLE runlog_entries ADD COLUMN not_begun SMALLINT NOT NULL DEFAULT 0") {
		t.Errorf("no statement is named: %v", err)
	}
}

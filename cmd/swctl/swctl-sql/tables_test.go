package main

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// alter changes tables behind the store's back.
func alter(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	for _, statement := range statements {
		if err == nil {
			_, err = db.ExecContext(t.Context(), statement)
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Who meets tables of another version, or may not create them, is told what to do.
func TestTablesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statements []string
		want       string
	}{
		"from before the release": {[]string{"INSERT INTO runlog_schema VALUES (2)"}, "drop runlog_schema, runlog_logs"},
		"of a newer version":      {[]string{"INSERT INTO runlog_schema VALUES (99)"}, "upgrade this program"},
		"that are no tables":      {[]string{"CREATE VIEW runlog_entries AS SELECT 1 AS group_name"}, "CREATE INDEX IF NOT EXISTS runlog_entries_"},
	} {
		path := filepath.Join(t.TempDir(), "runlog.db")
		s := opener(t, "sqlite:"+path)()
		defer s.Close()
		alter(t, path, append([]string{"CREATE TABLE runlog_schema (version INTEGER PRIMARY KEY)"}, test.statements...)...)
		if _, err := s.Load(t.Context(), "billing"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("tables %s: a reader is told %v", name, err)
		}
		for _, err := range s.Entries(t.Context(), runlog.Query{Group: "billing"}) {
			if err == nil || !strings.Contains(err.Error(), "drop") && !strings.Contains(err.Error(), "upgrade") && !strings.Contains(err.Error(), "swctl runlog") {
				t.Errorf("tables %s: who queries them is told %v", name, err)
			}
		}
	}
}

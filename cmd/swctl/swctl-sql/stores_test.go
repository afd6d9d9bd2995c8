package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/storetest"
)

// opener opens the store of a URL as swctl does.
func opener(tb testing.TB, address string) func() runlog.Store {
	tb.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	return func() runlog.Store {
		s, err := stores[parsed.Scheme](parsed)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}
}

// databases are the URLs of an empty database of each kind.
func databases(tb testing.TB) map[string]string {
	tb.Helper()
	return map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(tb.TempDir(), "run ?%log.db"),
		"postgres": startPostgres(tb),
		"mariadb":  startMariaDB(tb),
	}
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, address := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := opener(t, address)
			t.Run("race", func(t *testing.T) { storetest.Race(t, open) }) // first: it creates the tables
			t.Run("contract", func(t *testing.T) { storetest.Contract(t, open) })
			t.Run("voids", func(t *testing.T) { storetest.Voids(t, open) })
			t.Run("prunes", func(t *testing.T) { storetest.Prunes(t, open, 300, true) })
			t.Run("kill", func(t *testing.T) { killed(t, address) })
			for seed := range 3 {
				t.Run("chaos"+strconv.Itoa(seed), func(t *testing.T) {
					group := "chaos-" + strconv.Itoa(seed)
					storetest.Chaos(t, uint64(seed), group, open, nil)
				})
				t.Run("restores"+strconv.Itoa(seed), func(t *testing.T) {
					storetest.Restores(t, uint64(seed), "restores-"+strconv.Itoa(seed), open, nil)
				})
			}
			t.Run("holes", func(t *testing.T) { storetest.Holes(t, 1, "holes", open, nil) })
		})
	}
}

// The files of a SQLite store are for its user and group, as JSON lines' are.
func TestSQLiteFilesArePrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runlog.db")
	s := opener(t, "sqlite:"+path)()
	if _, err := s.Load(t.Context(), "billing"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v; want the database and its journal", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"sqlite:", "sqlite://host/x", "mysql://u:pw@h", "mysql:x", "mysql://u:pw@h:1/db?socket=x&parseTime=maybe", "postgres://u:pw@h:port/db",
		"postgres://u:pw@h/db?sslmode=pw",
	} {
		parsed, err := url.Parse(strings.ReplaceAll(address, "port", "99999"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := stores[parsed.Scheme](parsed)
		if err == nil {
			_, err = s.Load(t.Context(), "billing") // some drivers look only then
		}
		if err == nil || strings.Contains(err.Error(), "pw@") || strings.Contains(err.Error(), ":pw") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

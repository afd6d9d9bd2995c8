package sqlstore

import (
	"strings"
	"testing"
)

// With real databases, the store is tested by cmd/swctl/swctl-sql, which has their drivers.
func TestDialects(t *testing.T) {
	t.Parallel()
	key, columns := []string{"a", "b"}, []string{"c"}
	for d, want := range map[Dialect]string{
		Postgres: "INSERT INTO t (a,b,c) VALUES ($1,$2,$3),($4,$5,$6) ON CONFLICT (a,b) DO UPDATE SET c=excluded.c",
		MySQL:    "INSERT INTO t (a,b,c) VALUES (?,?,?),(?,?,?) ON DUPLICATE KEY UPDATE c=VALUES(c)",
		SQLite:   "INSERT INTO t (a,b,c) VALUES (?,?,?),(?,?,?) ON CONFLICT (a,b) DO UPDATE SET c=excluded.c",
	} {
		if got := d.upsert("t", key, columns, 2); got != want {
			t.Errorf("%v: %s\nwant %s", d, got, want)
		}
		for _, statement := range d.tables() {
			if indexed := strings.HasPrefix(statement, "CREATE INDEX"); strings.Contains(statement, "IF NOT EXISTS") == (indexed && d == MySQL) {
				t.Errorf("%v: %s", d, statement)
			}
		}
	}
	// What InnoDB has for a key.
	if bytes := 4*(groupSize+slotSize+keySize) + 8; bytes > 3072 {
		t.Errorf("the key of an entry may have %d bytes", bytes)
	}
	for _, d := range []Dialect{0, SQLite + 1} {
		if _, err := New(nil, d); err == nil {
			t.Errorf("%v is taken", d)
		}
	}
}

package sqlstore

import (
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/sqltext"
)

// Dialect is the SQL of a database.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota + 1
	MySQL            // and MariaDB
	SQLite
)

// String implements fmt.Stringer.
func (d Dialect) String() string {
	if name := map[Dialect]string{Postgres: "Postgres", MySQL: "MySQL", SQLite: "SQLite"}[d]; name != "" {
		return name
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// bound replaces each ? by the dialect's form of a parameter.
func (d Dialect) bound(query string) string {
	if d != Postgres {
		return query
	}
	return sqltext.Numbered(query)
}

// upsert is an insert of so many rows, each of which takes the place of the row with the same key.
func (d Dialect) upsert(table string, key, columns []string, rows int) string {
	all := append(append([]string{}, key...), columns...)
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", len(all)), ",") + ")"
	var set []string
	for _, c := range columns {
		if d == MySQL {
			set = append(set, c+"=VALUES("+c+")")
		} else {
			set = append(set, c+"=excluded."+c)
		}
	}
	text := "INSERT INTO " + table + " (" + strings.Join(all, ",") + ") VALUES " + strings.TrimSuffix(strings.Repeat(row+",", rows), ",")
	if d == MySQL {
		return text + " ON DUPLICATE KEY UPDATE " + strings.Join(set, ",")
	}
	return d.bound(text + " ON CONFLICT (" + strings.Join(key, ",") + ") DO UPDATE SET " + strings.Join(set, ","))
}

// insertMissing is an insert of a row that does nothing if there is one.
func (d Dialect) insertMissing(table, key string, columns ...string) string {
	verb, end := "INSERT INTO ", " ON CONFLICT ("+key+") DO NOTHING"
	if d == MySQL {
		verb, end = "INSERT IGNORE INTO ", ""
	}
	return d.bound(verb + table + " (" + strings.Join(append([]string{key}, columns...), ",") + ") VALUES (?" + strings.Repeat(",?", len(columns)) + ")" + end)
}

// tables are the statements that create them. Each may have been run before.
func (d Dialect) tables() []string {
	name, text, end := "VARCHAR(%d)", "TEXT", ""
	if d == MySQL { // which else takes upper case for lower, and forgets the ends of texts
		name, end = "VARCHAR(%d) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
		text = "MEDIUMTEXT"
	}
	of := func(size int) string { return fmt.Sprintf(name, size) + " NOT NULL" }
	statements := []string{
		"CREATE TABLE IF NOT EXISTS runlog_schema (version INTEGER PRIMARY KEY)",
		"CREATE TABLE IF NOT EXISTS runlog_logs (group_name " + of(groupSize) + ` PRIMARY KEY, seq BIGINT NOT NULL,
			cursor_zxid BIGINT NOT NULL, appends BIGINT NOT NULL)` + end,
		"CREATE TABLE IF NOT EXISTS runlog_positions (group_name " + of(groupSize) + ", slot " + of(slotSize) + `,
			incarnation BIGINT NOT NULL, rev BIGINT NOT NULL, number BIGINT NOT NULL, last_key ` + of(keySize) + `, through_ms BIGINT NOT NULL,
			PRIMARY KEY (group_name, slot))` + end,
		"CREATE TABLE IF NOT EXISTS runlog_entries (group_name " + of(groupSize) + ", slot " + of(slotSize) + `, incarnation BIGINT NOT NULL,
			entry_key ` + of(keySize) + ", seq BIGINT NOT NULL, job " + of(jobSize) + ", kind " + of(kindSize) + `, at_ms BIGINT NOT NULL, ok SMALLINT NOT NULL,
			amended SMALLINT NOT NULL, state ` + of(textSize) + ", reason " + of(textSize) + `, tick_ms BIGINT NOT NULL, to_ms BIGINT NOT NULL,
			ticks BIGINT NOT NULL, manual ` + of(textSize) + ", instance_id " + of(textSize) + ", token BIGINT NOT NULL, run_id " + of(textSize) + `,
			attempt BIGINT NOT NULL, failures BIGINT NOT NULL, started_ms BIGINT NOT NULL, ended_ms BIGINT NOT NULL, error ` + text + ` NOT NULL,
			taken_from ` + of(textSize) + `, delayed_ms BIGINT NOT NULL, restarts BIGINT NOT NULL, not_begun SMALLINT NOT NULL,
			number BIGINT NOT NULL, rev BIGINT NOT NULL,
			asked_by ` + of(textSize) + ", asked_reason " + of(textSize) + ", past " + of(kindSize) + ", stopped_by " + of(textSize) + ", stopped_reason " + of(textSize) + `,
			effects_run_id ` + of(textSize) + ", effects_instance_id " + of(textSize) + `, effects_ms BIGINT NOT NULL,
			PRIMARY KEY (group_name, slot, incarnation, entry_key))` + end,
	}
	for index, columns := range map[string]string{"seq": "seq", "job": "job, seq", "at": "at_ms"} {
		statement := "CREATE INDEX IF NOT EXISTS runlog_entries_" + index + " ON runlog_entries (group_name, " + columns + ")"
		if d == MySQL { // MySQL has no IF NOT EXISTS here, but MariaDB: see Store.made
			statement = strings.Replace(statement, " IF NOT EXISTS", "", 1)
		}
		statements = append(statements, statement)
	}
	return statements
}

// The sizes of columns, in characters. With the columns before them, keys must fit into the 3,072
// bytes of InnoDB.
const (
	groupSize = 255
	jobSize   = 200
	slotSize  = 401 // a job, a slash, and an instance
	keySize   = 64
	kindSize  = 16
	textSize  = 255
)

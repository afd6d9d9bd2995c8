package once

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
	if d < Postgres || d > SQLite {
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
	return [...]string{"Postgres", "MySQL", "SQLite"}[d-Postgres]
}

func (d Dialect) bound(query string) string {
	if d == Postgres {
		return sqltext.Numbered(query)
	}
	return query
}

// raise is the first statement of a transaction. It locks the fence's row until the end, whether it
// raises it or finds a larger token, and never lowers it. As it writes, SQLite begins as a writer
// by it, with nothing read before.
func (d Dialect) raise() string {
	insert := "INSERT INTO once_fences (group_name, slot, token, pruned_ms) VALUES (?,?,?,0) "
	switch d {
	case MySQL:
		return insert + "ON DUPLICATE KEY UPDATE token=GREATEST(token,?)"
	case SQLite:
		return insert + "ON CONFLICT (group_name, slot) DO UPDATE SET token=MAX(token,?)"
	default:
		return d.bound(insert + "ON CONFLICT (group_name, slot) DO UPDATE SET token=GREATEST(once_fences.token,?)")
	}
}

func (d Dialect) raiseArgs(k key, token int64) []any { return []any{k.group, k.slot, token, token} }

// look is the second statement. It need not lock: markers are written behind the fence. In MySQL it
// is the one from which the transaction's readings date.
func (d Dialect) look() string {
	return d.bound(`SELECT f.token, f.pruned_ms, t.run_id, t.instance_id, t.at_ms FROM once_fences f
		LEFT JOIN once_ticks t ON t.group_name=f.group_name AND t.slot=f.slot AND t.tick_ms=? AND t.request=? AND t.step=?
		WHERE f.group_name=? AND f.slot=?`)
}

func (d Dialect) insertTick() string {
	return d.bound("INSERT INTO once_ticks (group_name, slot, tick_ms, request, step, run_id, instance_id, token, at_ms) VALUES (?,?,?,?,?,?,?,?,?)")
}

// Schema lists the statements that create the tables. Each may have been executed before.
//
//	once_fences  for each slot the largest token that wrote, and the first tick whose marker is kept
//	once_ticks   a marker in each row, which names the run, with times in Unix milliseconds
//	once_schema  the version of both
func (d Dialect) Schema() []string {
	name, ascii, end := " VARCHAR(%d) NOT NULL", " VARCHAR(%d) NOT NULL", ""
	version := " ON CONFLICT (version) DO NOTHING"
	if d == MySQL { // which else takes upper case for lower
		name = " VARCHAR(%d) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
		ascii = " VARCHAR(%d) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
		end, version = " ENGINE=InnoDB", " ON DUPLICATE KEY UPDATE version=version"
	}
	column := func(name, form string, size int) string { return name + fmt.Sprintf(form, size) + ", " }
	slot := column("group_name", name, nameSize) + column("slot", name, slotSize)
	return []string{
		"CREATE TABLE IF NOT EXISTS once_schema (version INTEGER NOT NULL PRIMARY KEY)" + end,
		"CREATE TABLE IF NOT EXISTS once_fences (" + slot +
			"token BIGINT NOT NULL, pruned_ms BIGINT NOT NULL, PRIMARY KEY (group_name, slot))" + end,
		"CREATE TABLE IF NOT EXISTS once_ticks (" + slot +
			"tick_ms BIGINT NOT NULL, " + column("request", ascii, wordSize) + column("step", ascii, wordSize) +
			column("run_id", ascii, wordSize) + column("instance_id", name, nameSize) +
			"token BIGINT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (group_name, slot, tick_ms, request, step))" + end,
		strings.TrimSpace(fmt.Sprintf("INSERT INTO once_schema (version) VALUES (%d)%s", schema, version)),
	}
}

// The sizes of columns, in characters. A key must fit into the 3,072 bytes of InnoDB.
const (
	nameSize = 200 // of a group and of an instance
	slotSize = 401 // a job, a slash, and an instance
	wordSize = 100
)

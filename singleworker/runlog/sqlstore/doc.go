// Package sqlstore keeps run logs in a SQL database: PostgreSQL, MySQL or MariaDB, or SQLite. It is
// a runlog.Store.
//
// It links no driver. The application opens the database with the one that it has, or swctl-sql
// does:
//
//	db, err := sql.Open("pgx", dsn)
//	...
//	store, err := sqlstore.New(db, sqlstore.Postgres)
//
// The tables are created by the first Load, whose user must be allowed to. Their names begin with
// runlog_, and one database can hold the logs of many groups:
//
//	runlog_entries    an entry of the log in each row: runlog.Entry, with times in Unix milliseconds, 0 for none
//	runlog_positions  how far the log has each history: runlog.Position
//	runlog_logs       for each group the number of the last entry, by which readers exclude each other
//	runlog_schema     the version of all that
//
// A batch is one transaction, whose first statement sets the number in runlog_logs if it is the one
// that the reader knows. So it waits for another reader's transaction, and is refused after it.
// That needs no more than the default isolation of each database.
//
// With SQLite, set a busy timeout, and let transactions begin as writers (_txlock=immediate).
package sqlstore

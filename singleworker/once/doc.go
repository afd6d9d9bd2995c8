// Package once has a run change a SQL database exactly once, although a run may be repeated: its
// instance can die between the COMMIT and the record of the result.
//
//	db, err := once.New(sqlDB, once.Postgres)
//	err = db.Create(ctx) // its tables, if they are missing
//	charge := func(ctx context.Context, tx *sql.Tx, run *singleworker.Run) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO charges (day) VALUES ($1)", run.Tick)
//		return err
//	}
//	err = m.Handle("charge", once.Wrap(db, charge))
//
// [Do] puts the application's statements behind its own, in one transaction:
//
//  1. It raises the slot's fence to the run's token, which locks the fence until the end of the
//     transaction. A larger token belongs to a later owner: [ErrFenced].
//  2. It looks for the marker of the run's tick. If there is one, the work is done: [ErrDone].
//  3. It writes the marker, calls the application's function, and commits.
//
// So transactions of one slot come one after the other, and owners in the order in which they owned
// it. Whatever the function reads is as the last of them has left it. All this holds at the
// default isolation of each database, and at a stricter one, at which a transaction can be refused
// for having waited. Then the run fails, as with any error of the database, and can be retried.
//
// # Which runs are the same
//
// The marker's key is the group, the slot and the tick. Retries, and reruns after an interruption,
// have the tick of the first attempt. A manual run has the ID of its request in the key, too, and
// its retries have the same one. A past tick that is run by name has its own key, unless it is to
// be run although it is ok. Then its key is a manual run's. Each shard, and each instance of a job
// on every instance, is a slot with its own fence. A call of [singleworker.Job.BeforeTick] has a
// key of its own, and so has each [Step]. Two groups of one name, on two ensembles for example,
// must not share a database.
//
// # A COMMIT whose answer is lost
//
// After an error of COMMIT, Do looks for its marker in another transaction, which waits for the
// first one at the fence, and so finds out whether it was committed. If the database does not
// answer for five seconds, in which it is asked again and again, Do returns the error, and the next
// attempt finds out. The run has failed then, so there is one only if the job has Retries.
//
// # A run whose result is lost
//
// The instance can die after the COMMIT. Then the next attempt finds the marker, and ends well. In
// a job whose Interrupted is "ask", with a [Resolver], the handler is not even called: what else it
// does, outside of the transaction, does not happen twice.
//
//	cfg.Resolve = once.Resolver(db)
//
// The resolver raises the fence before it looks. So it waits for a transaction on its way, and one
// that comes later is refused: "not there" stays true.
//
// # Duties of the function
//
//   - It writes in the transaction that it is given, to this database. Anything else, such as a
//     mail, can still happen twice.
//   - It returns the error of a statement, and does not go on after one: some databases have rolled
//     back by then. It neither commits nor rolls back.
//   - It is short. A process that is suspended in a transaction keeps its locks, and the next owner
//     waits until the database ends it: set idle_in_transaction_session_timeout in PostgreSQL,
//     idle_transaction_timeout in MariaDB, wait_timeout in MySQL. Compute first, if the result may
//     be as old as its reading.
//   - In MySQL and MariaDB its tables are InnoDB's, and it changes no table's definition, which
//     commits.
//
// For SQLite, set a busy timeout. All processes must use the same file.
//
// # Cost
//
// Do adds three statements to a transaction, and writes two rows. That took 0.4 ms more, p50, in
// PostgreSQL and in MariaDB on loopback on a machine that was busy otherwise, and 0.1 ms in SQLite
// with a write-ahead log. The driver of MySQL sends each statement twice unless its connection
// string has interpolateParams=true, which saves 0.6 ms.
package once

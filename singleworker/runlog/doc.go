// Package runlog keeps what became of every tick, for as long as you like, in a store outside
// ZooKeeper: files of JSON lines (package jsonl), or a SQL database (package sqlstore).
//
// ZooKeeper has the last 20 entries of each job. [Run] reads them as they are written and appends
// new ones to the store: every run that has ended, every retry, and every row of ticks that were
// skipped or missed. Nothing is lost and nothing is written twice, whenever a reader is killed and
// however many of them run:
//
//   - News is the difference between a job's history, whose entries and writes are numbered, and
//     the log's [Position] in it, which the store keeps with the entries, in the same transaction.
//     There is no moment at which one is ahead of the other.
//   - Each [Batch] names the last number of the log that its reader has seen. The store refuses it
//     if another reader has appended something since ([ErrConflict]).
//   - Entries that the history forgot before they were read are one of kind [Hole]. So are jobs
//     that are gone, whose last moments may not have been read ([Gone]).
//   - If ZooKeeper is restored from a backup, runs that it has forgotten stay in the log, and rows
//     of ticks are replaced by its present records of them. But a job that was canceled after the
//     backup is taken for a new one, and may have its runs twice.
//
// The rows do not depend on the handler's process: an instance that dies leaves its run to its
// heir, which records it as interrupted or lost, and the log reads that.
//
// Run it in one program, or in many: one that finds another at work waits until that has been
// silent. In an application, a job with the schedule @always is a good place, because one instance
// runs it; outside, swctl runlog.
//
// A hole says from which numbers the log continues. Entries that have changed come first, by their
// writes, then those that were added, so the position follows from the lines of the log alone,
// also if a batch was written in part. After a restore a history is behind the position, or has
// another entry under the same number, or adds a row of ticks that are accounted for. Then, and
// only then, a reader looks into the store, from the newest entry back to the first that log and
// history share. A run's key is its ID, and a row's its first tick. A restored history that has,
// when it is read, forgotten exactly up to the number at which the log ends, cannot be told from
// one that was not.
//
// Histories are watched when they are read. That costs a read of one node per claim, of seven per
// result, and reading everything, 2 KB per job, when it begins. With 20 entries a reader may be
// away for 20 runs of a job; 200 would cost up to 2.5 KB for each run and 150 MB of memory for
// 10,000 jobs. Config.HistorySize is for groups of few jobs that run often.
package runlog

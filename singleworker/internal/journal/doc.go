// Package journal is the room of an instance that keeps the records of the slots that it owns: it
// reads and writes their tick and history nodes, and follows operators' requests of them.
//
// It is the only writer of these nodes while a slot is owned. A commit checks that the slot still
// is owned, the spec is the one that the decision is based on, and the record is unchanged; see
// [Journal.Commit].
//
// # Transactions
//
// Decisions that are due together travel together, up to 500 in one transaction. If one is
// refused, the others are sent again together, and if another one is, their nodes are read first,
// which shows all that is no longer current. Claims and slots that change hands have one lane,
// results and the rest another, with at most four transactions under way, of up to 512 KiB. A
// heartbeat has a lane in which nothing waits. Where 32 slots or more of an instance have the same
// tick, results are held back until 35 ms after it, so that they compete with no claim; not if the
// instance stops, or another run waits for their end. A decision whose reply was lost is
// recognized by its run ID in the record that is read again.
//
// While ZooKeeper is away results wait. A result that comes when the slot is no longer owned
// creates a node with the run's ID below tick, reads the records, and deletes the node in its
// transaction, as in package owner.
//
// # Requests
//
// A node below requests has a name that begins with the time. The owner is told (package signals).
// A manual run is claimed like a tick, under the time of the request, without moving the
// watermark, after the run in progress and before the ticks that waited for its end. Those
// continue to wait, as if the two were one run; the record says since when (busy_since). The claim
// checks that the request still exists, and the request is deleted with the record of the run's
// last result: it survives its owner and is done once, with attempts. A request to stop is deleted
// when the run was told. One that is unreadable is logged once and left alone. At most 10 are
// pending at a slot.
//
// # BeforeTick
//
// The first shard's passed says for all shards that a tick may run ([Gates]): one watch for each
// such job and instance, read together with the shard's record by deputies and the dead man's
// switch. A shard's claim does not check that record. It need not, as a tick that has passed stays
// so; only the job must be the same, so the reading begins with a watch, and is dropped with the
// job's deletion and with the connection. The record is read before the history, so a tick before
// the watermark that is not listed as passed was refused, or is too old for the history. A deputy
// looks at a waiting shard after a second, and then whenever it has waited twice as long. The
// shard is not overdue; it counts from the time at which its owner heard that the tick passed, and
// later owners use the later of the recorded time and the record's mtime. Each further attempt of
// the first shard inherits it, and does not call the function again. The other shards decide no
// tick before the first has, run those that have passed, and record the others as refused or
// not_begun.
//
// # Jobs after jobs
//
// The owner of a child follows the record of each parent in the same way, and reads its history
// when the record says that it has changed. Claims rest on the specs of all ancestors, too, whose
// versions they check. These begin at 0 again when a job is deleted and submitted again. So the
// owner has an ephemeral node below each ancestor, and reads after that which job it is. Claims
// check that the node is there, and wait until it is: nothing of a job that is gone decides about
// a tick, however late its owner hears of that. The slots of an instance share these nodes.
//
// # Limits
//
// Each place of a limit has a node while a run holds it. A claim creates the nodes of the places
// that its run needs, and whatever writes the tick record next deletes those that the record names
// no longer: the result, or the heir of an owner that has died, unless the run begins again at
// once. There is one writer of the record, so nothing else need give places back. A node for each
// place, and not a count, because claims of different places do not compete, and ZooKeeper's log
// has the number that is taken at each moment. Claims check the limit's version, so none takes a
// place under another maximum than it knows. After a limit was lowered, places beyond it which are
// still held keep as many of the others free.
//
// Claims with limits have a lane of their own. How slots wait is said at [Places].
package journal

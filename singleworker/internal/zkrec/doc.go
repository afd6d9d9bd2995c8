// Package zkrec knows every path and every record that singleworker keeps in
// ZooKeeper, and nothing else: no connection, no clock, no other instance.
//
// The tree of one group of instances (a server type):
//
//	/{serverType}
//	  {job}                       the job spec: plain cron text, or a JSON object
//	    register                  the job's switch: its pause, and how often it was opened
//	      {sid}                   empty: this instance has the handler
//	    alive                     the owner record, or empty if the job has no owner
//	      {sid}                   the owner's heartbeat: decimal Unix milliseconds
//	    tick                      the last claim and its result
//	    history                   the outcome of the last ticks: the first page
//	      {k}                     another page
//	    requests/{id}             an operator's pending request to the owner
//	    alarm                     the last tick that was reported as missed
//	    versions                  the job as it was, and who changed it; only if somebody did
//	    stack                     where the handler was of a run that was to stop
//	    shards                    of a sharded job: the tick up to which all shards have finished
//	      {k}/alive, tick ...     of shard k, instead of the job's own
//	  _instances/{sid}            ephemeral: one running instance
//	  _life/{incarnation}         ephemeral: its sign of life, decimal Unix milliseconds
//	  _changes/{n}                the job of part n whose node was changed, or deleted, last
//	  _asked/{incarnation}        ephemeral: the slots of which something was last asked of it
//	  _handlers/{hash}            the handlers of the instances that name the hash, one per line
//	  _disabled/{sid}             an operator's order to drain or disable the instance
//	  _excluded/{hash}            an operator's order for one job on an instance or a host, or for a host
//	  _gone/{incarnation}-{czxid} an instance that is gone; the czxid, in hexadecimal, is of its node
//	  _log/c{n}, _log/a{n}        who changed what, and who asked for a run or a stop
//	  _acl                        who has which role: the access lists of all nodes follow from it
//	  _canceled/{job}@{czxid}-{n}, _canceled/{job}@{czxid}-h{n}
//	                              a job that was canceled, and its past
//	  _notify                     package notify: what was told, and up to where it has read; its parts are below, and its election
//
// register, alive and the decimal heartbeats are the layout of the published
// SingleWorker sample, so its trees can be read unchanged.
//
// Readers accept records of older writers, keep fields that they do not know, and refuse a record
// with a newer schema with a [SchemaError]. Every format is pinned by a golden file.
//
// # Fields that a reader does not know
//
// A record that is read and written back keeps them, at every level: a spec with its former
// schedules and its layout; a switch with its pause; a tick record with the run that it holds; the
// pages of a history, their entries and who wrote each; the record of complete ticks; an alarm. A
// field belongs to the subject of its object, and goes with that:
//
//   - An unknown field of a tick record is of its run. It goes with the run into the history, and
//     beside a manual run, under the same name. The next run, which may be the next attempt at the
//     same tick, begins without it. So does an alarm of another tick, and a page whose node is used
//     for other entries.
//   - A field of those three whose name begins with "slot_" is of the slot: it stays, whatever
//     follows.
//   - A new pause, layout, declaration or schedule begins without the unknown fields of the one
//     before.
//   - What is not known of a failure that was to be retried is of the episode that it begins. Notes
//     on a slot are deleted when nobody is to be told of it and nothing of it is to be remembered.
//
// The other records are written by whom they are about, or once, and never written back: owners,
// instances, orders, exclusions and requests. A value that is no object has no fields: another form
// of it, a mark with three numbers say, needs a schema. So does a field that must not be lost when
// its object is replaced.
//
// # When a schema is raised
//
// A field that narrows or widens the ticks that may be claimed (where a job runs, for whom it
// waits) raises the schema of the specs that use it: it gets a line in the table raising. A spec
// that uses none keeps the lowest schema, so an older instance still runs it. Of a spec with a
// newer schema, whenever it becomes one, an older instance owns nothing: it takes no slot of the
// job, relieves nobody of one, releases its slots when they are idle, claims nothing, and writes
// over nothing. An instance's record says which schema it reads; those that read the spec share the
// job's slots and watch it for overdue ticks. If none lives, the others report the job as overdue.
//
// A request that says something else than a run now (a tick that is past) has another schema or
// another kind, and never merely one more field: an owner that does not know it would run now. It
// ignores a request that it cannot read, and leaves it.
//
// # Records that cannot be read
//
// A missing node is created by the instance that runs the job: the published sample creates fewer
// nodes. A node that cannot be read (it has no record, a newer schema, or access is denied) makes
// the job invalid. Nobody runs it, each instance that reads it logs the path once, swctl show names
// the node, and nothing is written over it. swctl repair names the loss, asks, and rewrites the
// nodes at the versions that it has shown. Exempt are owner records, which then name nobody, since
// versions decide who owns a slot and the sample writes other data there; requests, which are
// ignored; and the notes of package notify, of which a new one begins. A node with a name that no
// job can have is not run, and one below _instances that no session holds is not an instance. A
// reading that is refused, although nothing has changed, is made again after a sync period. A
// repaired tick record is written empty.
//
// # Histories
//
// It takes six nodes, of which a result writes one: ZooKeeper logs a node as a whole, and 20
// entries for each run would be most of the cost of a run. A page is full with a fifth of
// Config.HistorySize, or 13 KiB, and the one with the oldest entries is emptied for the next.
// Fields that the entries of a page share, their owner and token, are said once; times are
// differences, and usual values are left out. Pages read in one request are of one moment.
// Otherwise each is as recent as the tick record that was read before it, and a reader that must
// know compares them and reads again. Each write raises rev and writes the tick record with it.
// Each entry has a number, which never changes, and the rev of the write that last changed it; the
// history keeps the highest rev of a forgotten entry. A reader up to a rev learns what is new, and
// whether something is missing, by two comparisons: [History.Since]. After a restore a history is
// behind a reader, which Since says, too. A history that somebody emptied continues from there,
// with the earlier entries as forgotten.
package zkrec

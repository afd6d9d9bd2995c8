// Package admin reads and changes the jobs of one group of instances: it submits, edits, cancels,
// pauses, lists and shows jobs, runs one now or stops its run, explains the outcome of ticks, and
// lists and drains instances. swctl is built on it, and an application's admin page can be. Dial
// connects, and On works on the session of an instance.
//
// The name of a shard, such as "report[3]", selects one shard of a job: to get
// it, to read its history, to explain its ticks, to run it or to stop its run.
// Calls that change a job take the job's name.
//
// The package only uses the records in ZooKeeper and needs no running instance:
// a job submitted while the whole group is down is adopted when the group is
// back. Owners are reported as recorded, which is what the group agreed on, not
// what one instance believes.
//
// Every call takes a context and returns when that is done. If the connection
// breaks during a call, the call is retried until its outcome is known, the
// context is done, or Close is called. Then the error says that the outcome is unknown.
//
// # The clock of a client
//
// A client judges by the group's time, and writes nothing to learn it: it reads the instances'
// signs of life, once a minute, in one further request. A sign that was not there at the reading
// before was written between the sending of that one and the answer to this one, which is a
// measurement. The first reading has none before it: if the latest sign is as old as it may be,
// the machine's clock is taken for right; if not, the client waits for the next one, for half a
// session at most. If none comes, its own clock is all there is, and it says so. A clock that is
// off by less than a second is not corrected.
//
// # How Watch hears of changes
//
// ZooKeeper keeps states, and a watch says once that something has changed, not how. So events are
// differences between the records that were reported and those that are read, and each kind of
// record shows whether anything is missing: histories by the numbers of their writes, owner
// records and specs by their versions, and lists by their cversion, which counts creations. A
// round of reading has everything up to the highest zxid that was seen before it began, and that
// is the cursor from which another watch can resume. After a lost connection everything is read
// again, in bulk; in a new session after a sync. The first reading lasts until nothing of it is to
// be read again. Notifications are gathered for Pause, so a slow consumer costs readings, not
// memory. Persistent recursive watches would report each heartbeat, which are most of all writes.
// A tick record is read before its history, so a run that it names is open, or in there. Two
// histories, of a job and of another that was submitted under its name, are told apart by the
// transactions that created their nodes. A restored history may have the reported number, or a
// later one, so the last entry that was reported is compared, too.
//
// Late and hung jobs come by time, not by a write (WatchOptions.Trouble): the watch knows of each
// job when it has to look next.
package admin

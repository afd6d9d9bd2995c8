// Package admin reads and changes the jobs of one group of instances: it
// submits, edits, cancels, pauses, lists and shows jobs, runs one now or stops
// its run, explains the outcome of ticks, and lists and drains instances. swctl is
// built on it, and an application's admin page can be. Dial connects, and On works on the session of
// an instance.
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
package admin

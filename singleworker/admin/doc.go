// Package admin reads and changes the jobs of one group of instances: submit,
// set, cancel, pause, list and show jobs, run one now or stop its run, tell
// what became of their ticks and why, and which instances run. It is what
// swctl is made of, and enough for an application's own admin page.
//
// Where a job is divided, the name of a shard, such as "report[3]", stands for
// that shard: to get it, for its history, to explain its ticks, to run it or to
// stop its run. What changes a job takes the job's name.
//
// It works on the records in ZooKeeper alone and needs no running instance: a
// job submitted while the whole group is down is adopted when it is back.
// Owners are reported as recorded: what the group agreed on, not what one
// instance believes.
//
// Every call takes a context and ends when it ends. A call whose connection
// broke in the middle is repeated until its outcome is known or its context
// is over; then the error says that the outcome is unknown.
package admin

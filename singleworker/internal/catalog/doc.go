// Package catalog is the room of an instance that answers which jobs and slots there are, and
// which of them this instance can run.
//
// It follows the list of jobs, its registrations and the nodes of its shards by watches, and each
// job's spec by signals. It parses a spec once per version, registers this instance for the jobs
// that it can run, and creates nodes that a job lacks. It tells changes as notices.
//
// # Who can run a job
//
// Each instance still writes register/{sid} at each job that it can run, in bulk, before it
// appears: for people, and for older versions. It reads its own registration with the spec.
// Others' registrations are read, and watched, only while some live instance does not publish its
// handlers: an older version, one with more than 256 KiB of names, or one whose list does not
// match its hash. They count for those instances alone. A change of who can run a job reaches the
// protocol before the reading of the group that showed it: shares are computed from both.
//
// An instance that may not run a job (zkrec.MayRun) stays registered at it. An owner that no
// longer may starts no run, and releases the job when it is idle. A job that nobody may run has no
// owner, and its missed ticks follow its policy. The jobs of a handler that is registered later
// are read again, because the parts of a spec that only runs need were not kept.
//
// # Jobs on every instance
//
// Such a job's slot at an instance is known to that instance alone. The instance creates it when it
// can run the job, in a transaction that checks the spec; its ticks begin at the creation, by
// ZooKeeper's clock. The slot stays when the instance is gone, and a second incarnation takes it
// over under rule (a). A tick that came before the instance became the owner, and more than a
// second ago, is skipped as absent. One live instance looks, for each job, once in 60 sync periods
// for slots of instances that do not live. A slot of which no node was written for a day, by
// ZooKeeper's clock, is deleted at the versions that were read, unless an instance has joined
// since. The kind of a job that exists never changes: a tick that one owner has claimed could not
// be told from a tick that every instance runs. It counts in no share, nor in MaxSlots.
package catalog

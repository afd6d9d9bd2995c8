// Package coord keeps one instance in the group: it holds the ZooKeeper
// session, turns replies and watch events into events of the ownership
// protocol (package lease), and carries out the protocol's actions.
//
// One goroutine, the loop, owns all state. Requests run beside it and post
// their outcome back as a closure; posted closures are facts, they queue
// without bound and none is dropped. Nothing in the loop waits.
//
// What it knows of a job is its records: it does not know schedules or what a
// job does. A [Judge] says which jobs this instance can run; a [Runner] is told
// which slots (jobs, or shards of one) it owns, and writes what it decides on their
// ticks with [Coordinator.Commit].
//
// # Order
//
// Joining the group: the roots, the declared jobs, the registrations, then the
// ephemeral node, then everything else: when the others see the newcomer, they
// know all that it can run, and work out its share once. Leaving: the state
// "stopping" is published first, so that nobody counts on us; idle slots are
// offered at once, the others when their run has ended and its result is written;
// then, when nothing is taken any more, the registrations and the ephemeral node go,
// in one transaction, and the session is closed.
package coord

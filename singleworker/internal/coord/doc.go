// Package coord keeps one instance in its group. It is the switchboard of the rooms that do the
// work:
//
//	session   the connection, and the one goroutine that everything below runs on
//	member    is this instance part of the group, and who else is?
//	catalog   which jobs and slots are there, and which can run here?
//	owner     carries out the ownership protocol; says what guards a transaction
//	journal   keeps the tick records and requests of owned slots
//	keeper    looks after ticks that other instances own
//
// A room knows those above it in this list and calls them; it never calls one below. News for those
// goes as a notice (session.Loop.Tell), which the switchboard passes on later in the same turn; see
// handle. A watch event goes the same way; see route.
//
// # Order
//
// Joining: the roots, the registrations, then the ephemeral node, then the declared jobs, which
// only a member may write, then everything else: when the others see the newcomer they know
// everything that it can run, and compute its share once. Leaving: the state "stopping" is
// published first, so that nobody counts on us; idle slots are offered at once, the others when
// their run has ended and its result is written; then, when nothing is taken any more, the
// registrations and the ephemeral node go, in one transaction, and the session is closed.
//
// # Cost of the protocol
//
// Watches: one per slot for its owner record, one for each instance's record, two for the lists,
// 65 for the signals, and one for the list of each job's shards. Nodes of many jobs are read, and
// watched, 256 in a request; a server older than ZooKeeper 3.6 is asked node by node. Once per
// lease (0.75 of a session timeout), or per sync period if that is longer, an instance reads the
// list of instances, the signs of life of the two next owners in the order of their IDs, and a
// fifth of all slots, at most 128. At least once in 60 sync periods it reads each job's spec,
// registrations and requests. An instance that sees a slot pass from a live owner to another one
// that was not offered it looks at that owner's other slots, too.
//
// A sync looks at few of the jobs that need nothing: they are on an agenda (package agenda), as
// are the slots that an instance owns. Each room that looks at a job says when it wants to look
// again, and news of a job wakes it. Waits by a wall clock are looked at a second early, and when
// that clock and the monotonic one have come apart by half of that, or the group has changed, a
// sync looks at everything. Each sync also looks at a twentieth of the rest, at least 16. Finding
// anything to do there is logged as a fault, and the simulation fails then.
//
// Per quarter of a session timeout: the sign of life, and the heartbeats of the slots with a run,
// and of four others, or as many as it takes for each to have one every minute; one transaction
// for each 500. Per run: two transactions, its claim (one node) and its result (tick and a page of
// the history), shared with others that are due then. A page takes up to 13 KiB if errors are
// long; for a job that runs well it is one to four entries of some 60 bytes. The owner of a slot
// that has not run for five minutes no longer keeps them, and reads them again before its next
// result.
//
// Under overload, leases come first. Heartbeats have a separate lane; of claims and changes of
// ownership two transactions are under way at a time, of everything else one, and of readings four
// requests. The loop sends heartbeats, and handles their answers, between turns of a few
// milliseconds. Too much load makes ticks late.
//
// TestScale (package sim) starts groups of up to 1,000 jobs x 30 and 10,000 x 6 instances in
// virtual time, with the real code, and bounds their requests. make bench-cluster measures
// processes on a real server.
//
// # Health
//
// At the end of each turn the loop publishes a value with the session's state, the owned slots,
// and the last sync and claim. Manager.Health reads it without the loop, so it also answers when
// the loop hangs. The loop turns every 15 s although there is nothing to do, and counts as hung
// after a minute without a turn. Calls of the program go the other way, as closures posted to the
// loop (running.go).
package coord

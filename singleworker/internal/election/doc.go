// Package election elects a leader among contenders, over a connection that the caller owns. Its
// nodes have the names, data and order of LeaderLatch in Apache Curator 5, so contenders in Java
// and in Go share one queue.
//
// # How it works
//
// Below one path, each contender has an ephemeral sequential node
//
//	_c_{uuid}-latch-{ten digits}		data: the participant's id
//
// The contender with the lowest number leads. Every other contender watches only the node before
// its own, so the end of one node wakes one contender.
//
//	            connected                 no node before ours
//	away ──────────────▶ queueing ──────────────────────────▶ leading
//	 ▲                      ▲   node deleted, resigned           │  │
//	 │                      └────────────────────────────────────┘  │
//	 └───────────── disconnected, expired ──────────────────────────┘
//
// # Guarantees
//
//   - At most one leader: [Contender.Held] is true for one contender at a time. The next section
//     gives the reasons for that, and the faults that can break it.
//   - First come, first served: contenders lead in the order in which their nodes were created.
//   - A contender keeps its place, and starts no other term, until [Config.Serve] has returned: the
//     terms of one contender do not overlap.
//   - When Run has returned, no goroutine of the package is left. Unless it returned
//     [ErrNotReleased], no node of the contender is left either.
//
// # Why there are never two leaders
//
// A contender leads while three conditions hold: it has seen that its node is the lowest, the
// connection has not been lost since, and its lease has not lapsed.
//
// Once a node is the lowest, it stays the lowest: sequence numbers increase, and any list that
// contains our node, however stale, contains every earlier node that has not been deleted. So a
// second leader requires the first one's node to be gone. Apart from its contender, only the server
// deletes it, when the session expires, which is a session timeout after the server last heard from
// the contender.
//
// A lease lasts 0.75 of the granted session timeout, counted from before the latest acknowledged
// proof of life was sent. The proof is a transaction that only checks that the node exists: it
// changes nothing and wakes nobody, but a quorum has to agree on it. A read would prove less, since
// a server that is partitioned from its ensemble keeps answering reads. A write to the node would
// break Curator's contenders: they watch the data of the node before theirs, and would take the
// change for the one event they wait for and not watch again.
//
// The remaining quarter covers servers that learn of a session late from each other, and clocks
// that run at different rates. The contender uses the faster of its monotonic and its wall clock
// (see [leases.Clock]), so a stopped process or a suspended machine finds on waking that it no
// longer leads. A separate timer ends the lease, not the loop that renews it.
//
// A wall clock that was set shows the same picture as a suspension. So when it leaps,
// [Contender.Held] is false under a lease that is over by it, and a proof of life is sent at once.
// If that is acknowledged within 250 ms, the term continues: the node was there all the time.
// Otherwise the term ends. Package leases has that rule for the leases of jobs, too.
//
// Two things can break the guarantee: someone manually deletes the leader's node, until the leader
// is notified; and the 2^31st node created below one path, where ZooKeeper's sequence numbers wrap
// around to negative.
//
// # The fencing token
//
// A term's fencing token is the czxid of the node: the number, among all transactions of the
// ensemble, of the one that created it. Nodes on one path lead in the order of their sequence
// numbers, which is the order of their creation and therefore of their czxids, so a later leader
// has a higher token. The sequence number itself would not do, because it restarts at zero when the
// path is deleted. That happens automatically if Curator created the path as a container and nobody
// has contended for a while; by then every earlier leader is gone, and new czxids are still higher.
// Java contenders' nodes have a czxid, too, so tokens compare across languages.
//
// Two terms with the same node, before and after a lost connection, have the same token: nobody led
// in between.
//
// # Bugs of Curator and how they are avoided
//
//   - CURATOR-3 (a latch closed while it handles an event leaves a node), CURATOR-498, CURATOR-504
//     (a reply from before a reconnect sets or deletes the node created after it), CURATOR-620 (two
//     reconnects in a row delete a leader's node): one goroutine sends one request at a time, waits
//     for each even if the connection is lost meanwhile, and then checks whether the reply still
//     applies.
//   - CURATOR-644, CURATOR-645 (two contenders reset each other forever): a node is kept across
//     reconnects, and a missing predecessor only triggers another look.
//   - CURATOR-653 (still leader although another node is first): a contender that sees a node
//     before its own stops leading.
//   - CURATOR-696 (leads with the node of an expired session): a node counts only if the current
//     session owns it. Other nodes of ours are deleted.
//   - CURATOR-724 (the path itself is gone): it is created again.
//   - A node whose creation was not acknowledged is found by its uuid.
//
// # Tests
//
// A simulation in virtual time has kills, partitions, stalled processes, lost replies and servers
// that lag behind; its judge reads the server's log, and it must find six planted breaches
// (sim_test.go; -sim.all, -sim.seeds, -sim.base). Contenders in Java and Go meet on a real server,
// where the judge is a lock of the kernel (integration/curator).
package election

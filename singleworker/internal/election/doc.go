// Package election has one of several contenders lead, over a connection that
// somebody else owns. The nodes are those of Apache Curator 5's LeaderLatch, in
// names, data and order, so that contenders in Java and in Go stand in one queue.
//
// # How it works
//
// Below one path, each contender has an ephemeral sequential node
//
//	_c_{uuid}-latch-{ten digits}		data: the participant's id
//
// The lowest number leads; every other contender watches the node before its own, and
// nothing else, so that the end of one node wakes one contender.
//
//	            connected                 nobody is before us,
//	away ──────────────▶ queueing ──────────────────────────▶ leading
//	 ▲                      ▲   the node is gone, resigned      │  │
//	 │                      └───────────────────────────────────┘  │
//	 └───────────── disconnected, expired ─────────────────────────┘
//
// # What is promised
//
//   - Never two leaders: [Contender.Held] is true on one contender at a time.
//     See below for what that rests on, and what can break it.
//   - First come, first led: whoever's node was created first leads first.
//   - A place is given up only when [Config.Serve] has returned, and no further
//     term begins before: two terms of one contender do not overlap.
//   - When Run has returned, no goroutine of the package runs. Unless it returned
//     [ErrNotReleased], no node of the contender is left.
//
// # Why there are never two leaders
//
// A contender leads while three things hold: it has seen its node as the lowest,
// the connection has not broken since, and its lease runs.
//
// Once a node is the lowest it stays so: numbers are given out in order, and a list,
// however stale, that has our node has every node created before it, unless that was
// deleted. So a second leader needs the first one's node to be gone. Apart from its
// contender only the server deletes it, when the session ends; that is a session timeout
// after it last heard of it.
//
// The lease lasts 0.75 of the granted session timeout, from before the last proof of
// life was sent. The proof is a transaction of nothing but a check that the node exists:
// it changes nothing and wakes nobody, but a quorum has to agree on it. A read would
// prove less, for a server that is cut off from its ensemble goes on answering reads,
// and nothing may be written to the node: Curator's contenders watch its data, and would
// take the change for the one event that they wait for, and not ask for another.
// The quarter that is left covers servers that hear of a session late, from
// each other, and clocks that run at different rates. The contender's clock is the faster
// of its monotonic and its wall clock (see [leases.Clock]), so that a process that was
// stopped, or a machine that slept, finds on waking that it does not lead. A timer of its
// own ends the lease, not the loop that renews it.
//
// What can break the promise: a hand that deletes the leader's node, for as long as the
// leader takes to hear of it, and the 2^31st node created below one path, with which
// ZooKeeper's numbers begin again below zero.
//
// # The token
//
// A term's fencing token is the czxid of the node: the number of the transaction that
// created it, in the order of all transactions of the ensemble. On one path nodes lead
// in the order of their sequence numbers, which is the order of their creation, hence
// that of their czxids: whoever leads later has the higher token. The sequence number
// itself would not do, for it begins again at zero when the path is deleted. That happens
// by itself where Curator has made it a container, when nobody contends for a while;
// everybody who has led before is gone then, and new czxids are higher all the same.
// A node of a contender in Java has a czxid, too, and tokens compare across languages.
//
// Two terms with the same node, before and after a lost connection, have the same
// token: nobody led between them.
//
// # What became of Curator's bugs
//
//   - CURATOR-3 (a latch that is closed while it reacts to an event leaves a node),
//     CURATOR-498, CURATOR-504 (an answer from before a reconnect sets or deletes the
//     node of after it), CURATOR-620 (two reconnects in a row delete the node of a
//     leader): one goroutine makes one request after the other, waits for each, also when
//     the connection breaks meanwhile, and asks then whether the answer still counts.
//   - CURATOR-644, CURATOR-645 (two contenders that reset each other for ever): a node
//     is kept over a reconnect, and a predecessor that has gone is a reason to look again.
//   - CURATOR-653 (still leader although somebody else is first): whoever sees a node
//     before its own leads no more.
//   - CURATOR-696 (leads with the node of a session that has expired): a node counts
//     only if the present session owns it. Others of ours are deleted.
//   - CURATOR-724 (the path itself is gone): it is created again.
//   - A node whose creation was not acknowledged is found by its uuid.
package election

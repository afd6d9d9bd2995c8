// Package lease is the ownership protocol, which decides who may run which slot, as a pure state
// machine. [Machine.Step] turns one event at one instant into the requests to send next. It has no
// goroutine, clock, connection or handler, so every interleaving can be tested.
//
// # One slot, seen by one instance
//
//	        take acknowledged                 refused, taken, vanished
//	free ──────────────────────▶ owned ───────────────────────────────▶ not ours
//	 ▲                            │  ▲
//	 │ release, offer             │  │ heartbeat acknowledged: lease renewed
//	 └────────────────────────────┘──┘
//
// V is the version of the slot's alive node, which holds the owner record. H is the version of the
// owner's heartbeat node below it. Every change of owner is one transaction that checks V, so there
// are never two recorded owners, and a takeover never leaves the slot without one.
//
// # Who knows what
//
// The machine is told of events and carries out decisions. The values below it decide, and know
// nothing of it: peers is the picture of the group, that is who is there, who shows signs of life
// and who is offered nothing. A slot is its record, as it was read, and its requests in flight. It
// judges by peers whether it may be taken. A tally counts how the slots are shared at one moment.
// From it, an assignment computes which instance is to take each free slot, and a balance which
// slots are to move. The machine carries out its own part of both.
//
// # Two clocks
//
// An [Instant] has two readings of this instance's clocks. Elapsed never runs slower than the
// monotonic or the wall clock and measures this instance's leases: after a suspension, they have
// lapsed. Mono is the monotonic clock alone and measures the silence of others: a suspended machine
// has not been listening. Nor has a disconnected one, so silence counts from the current connection
// on. Clocks of two machines are never compared.
//
// When the wall clock leaps, Elapsed does, too. Either the machine was suspended, and the lease has
// lapsed, or the clock was set, and nothing has happened. No clock can tell the two apart, but
// ZooKeeper can: [Leapt] sends a heartbeat at once. If it is acknowledged, nobody had taken the
// slot by then, so a run that was in progress all the time was the only one. That is why package
// leases lets runs continue for the quarter of a second that the question may take, while nothing
// begins under a lease that is over by Elapsed. They end in any case when it is over by Mono, so a
// clock that was set makes no lease longer. The acknowledgment of a heartbeat from before the leap
// shows nothing of the time since.
//
// # Why leases are safe
//
// A lease lasts 0.75 of the session timeout, counted from before the latest acknowledged heartbeat
// or take was sent. Another instance may take the slot
//
//	(a) when the ephemeral node of the owner's incarnation is gone. The server removes it no earlier
//	    than one session timeout after it last heard from the owner, so the lease has lapsed by then;
//	(b) when the heartbeat node has stayed at H for 1.5 session timeouts (the owner's or the taker's,
//	    whichever is longer) on the taker's monotonic clock: the owner hangs while its session is alive;
//	    or
//	(c) when a run of the slot is due that the owner has not claimed, and none is open: see below.
//
// All check H in the transaction, so that an owner that has just sent a heartbeat keeps the slot.
// For (a), the list of instances must have been requested after H was read: otherwise an owner
// whose session expired could have reconnected and renewed its lease in between, which then shows
// in H. Without the check of H, or without this order, the tests find two valid leases at the same
// time.
//
// Three cases are outside this argument. If someone ends a session manually, its leases end only
// when the instance is notified. If a job is deleted and submitted again, the old owner's lease
// ends when it is notified. And if someone manually creates a heartbeat node for a hung instance,
// with the version that the instance saw last, that renews its lease. Claims check the version of
// the alive node and that the claimant's heartbeat node exists, so they are refused in all three
// cases.
//
// # Idle slots
//
// The lease protects runs in progress, not slots that are idle. Under (c) the owner may be alive,
// and its lease valid. But no run is open when the slot changes hands, for the transaction checks
// the version of the tick record that showed this; and the former owner can open none afterwards,
// because a claim checks the version of the alive node, which has changed. So of two leases that
// are valid then, one is of no use, until the next heartbeat is refused. The machine is told by
// [Overdue] which slots are due for this; [Machine.Deputy] says whose turn it is to look. A slot
// that is being read when it is told of is taken after the reading, unless that shows another
// record.
//
// # Unknown outcomes
//
// A request whose reply was lost may have been applied, or may still be applied. The machine never
// guesses: it reads the record again. A record that names this incarnation means that the slot is
// owned, whatever the machine believed before; it becomes a lease only when a heartbeat is
// acknowledged.
//
// # Reading
//
// The machine works in rounds: it reads every slot that may have changed, then the list of
// instances, and then decides. A watch event only starts a round earlier. Each sync period starts a
// round while slots are free or unevenly shared, which reads those that are on offer, whose owner
// is late, or that have heartbeats of others. Once per lease, a round also reads one slot of each
// of the two next owners in a ring, and a fifth of all slots, but no more than a hundred or so. So
// a lost event costs time and never correctness, and in rest the cost depends on neither the number
// of instances nor the number of slots. A slot is taken only if it was read in the same round: a
// decision by older readings leads to a reading first.
//
// # Who takes what
//
// Every machine assigns all free slots in the same way from the same records, to the instances
// below their share; among those, a hash of instance and slot decides. So instances that start in
// the same moment rarely compete. A slot that its instance leaves free for a sync period passes to
// the next one in the order of the hash; but if that one gives signs of life, it is late, and has
// eight sync periods.
//
// One reading can show how long a heartbeat has stayed at H: ZooKeeper orders its transactions, so
// when the machine learned of a later transaction, the heartbeat had already been written.
//
// # Who gets nothing
//
// An instance whose slot was taken under (b) or (c) hangs, or has died and its session lives: it
// would ignore each offer, for a sync period. So it gets no offers, and does not count as a deputy,
// for eight sync periods, or 1.5 session timeouts if that is longer: then a dead one's session is
// over. The one who took the slot knows this. The others, also those that join later, read it in
// the slot's record, which names the former owner as Relieved until the next change. It counts when
// the record is read for the first time, unless a record shows that this incarnation has taken a
// slot by a later transaction: then it is back.
//
// # Evenness
//
// The machine minimizes two sums: one per group of slots, and one over all slots. Each is the sum,
// over the instances, of the square of the number of slots divided by the instance's weight. A move
// reduces the sum of its group, or keeps it and reduces the sum over all slots. The only slot of a
// group counts as having no group.
//
// # Heartbeats
//
// A claim is the first heartbeat of its run: it writes the heartbeat in its transaction, whatever
// H is, since V shows that nobody has taken the slot, and the lease counts from before it was
// sent. While the run is in progress, heartbeats follow four times per session timeout. The slots
// without a run have one in turn, so that each has one every minute (Config.HeartbeatPeriod): for
// people, for the published sample, and to notice that a slot was taken although no watch has said
// so. A claim that is sent before the instance's node exists renews nothing: until then others may
// take the slot by (a), however recent its heartbeat is. The explorer found that.
//
// The sign of life is read together with the slot that is to be taken, after that was found
// silent. Only if the owner comes back between that reading and the take do idle slots change
// hands in vain. Where the sign is missing, the heartbeat alone counts.
//
// A leap of the wall clock by more than 100 ms is noticed within 750 ms, so the runs of a machine
// that was suspended end within a second.
//
// # Shares and offers
//
// The fair share of an instance is the sum, over the jobs that it can run, of its weight divided
// by the weights of all open instances that can. An instance takes up to MaxSlots. A slot that was
// offered and not taken passes to the next instance, too. While the sign of life of the one before
// is no older than 3/8 of a session timeout, that one is only late: when thousands of slots are
// taken at once all are late, and a slot that another takes in its place has to move back.
//
// An offer is taken without a look at the rest of the group: nobody owns the slot, nobody's
// heartbeat is there, and the version proves that this still holds. So a hand-over takes the
// write, the watch event, one reading and the adoption. Up to 500 offers travel in one
// transaction. With weights, a slot moves if its owner without half of it has more by weight than
// the other with half of it. A running job never moves, nor one whose tick is near. Slots that
// others would give do not count, because they may be running there. An owner that is silent is
// not given back the slot that is taken from it. An instance that ignores an offer gets no others
// for as long as one that was relieved.
//
// The slot of a job that always runs is never idle. [Evict] has the runner end its context and
// begin no run for a second; when the result is recorded the slot moves as any idle one. The
// balance prefers idle slots, ends a run only for a move that it would make of an idle one, and
// each run at most once. Moves need a difference of two, so none is undone.
package lease

// Package lease is the ownership protocol: who may run which slot, as a pure
// state machine. [Machine.Step] turns one event at one instant into the
// requests to send next. It has no goroutine, no clock, no connection and no
// handler, so that every interleaving can be tested.
//
// # One slot, seen by one instance
//
//	        take acknowledged                 refused, taken, vanished
//	free ──────────────────────▶ owned ───────────────────────────────▶ not mine
//	 ▲                            │  ▲
//	 │ release, offer             │  │ heartbeat acknowledged: lease renewed
//	 └────────────────────────────┘──┘
//
// V is the version of the slot's alive node, which holds the owner record; H
// is the version of the owner's heartbeat node below it. Every change of owner
// is one transaction that checks V, so there is never a moment with two
// recorded owners, and a takeover leaves no moment without one.
//
// # Two clocks
//
// An [Instant] carries two readings of this instance's own clocks. Elapsed
// never runs slower than the monotonic or the wall clock and judges its own
// leases: a suspended machine finds them lapsed when it wakes. Mono is the
// monotonic clock alone and judges the silence of others: a suspended machine
// has not listened meanwhile; nor has one without a connection, so silence counts
// from the present one on. Clocks of two machines are never compared.
//
// # What makes a lease safe
//
// A lease lasts 0.75 of the session timeout from before the last acknowledged
// heartbeat or adoption was sent. Somebody else may take the slot
//
//	(a) when the owner's ephemeral node of that incarnation is gone. The server
//	    removes it no sooner than one session timeout after it last heard from
//	    the owner, so the lease has lapsed by then; or
//	(b) when the heartbeat node stayed at H for 1.5 session timeouts, the owner's
//	    or the taker's if that is longer, on the taker's monotonic clock: the owner
//	    hangs while its session lives.
//
// Both check H in the transaction, so that an owner which has just sent a
// heartbeat keeps the slot. For (a) the reading of the instances must have
// been asked for after H was read: an owner whose session expired and who is
// back may have renewed its lease in between, which then shows in H. Leave out
// the check of H or this order and the tests find two valid leases at once.
//
// Three things are outside of this: a session ended by somebody's hand ends
// its leases only when the instance hears of it; when a job is deleted and
// submitted again, the old owner's lease ends when it hears of that; and a hand
// that forges a heartbeat node of a hung instance, at the version that this one
// saw last, gives it a lease. Claims check the alive node's version and that the
// own heartbeat node exists, and are refused in all three.
//
// # Unknown outcomes
//
// A request whose reply was lost may have been applied, or may be applied
// later. The machine never guesses: it reads the record again. A record that
// names this incarnation is owned, whatever was believed before; it becomes a
// lease only when a heartbeat is acknowledged.
//
// # Looking
//
// The machine looks in rounds: read every slot that may have changed, then
// the list of instances, then decide. A watch event only starts a round
// sooner. The sync period starts one over every slot that is free, unevenly
// shared or silent; once per lease over one slot of each other instance, and a
// fifth of all, so that a lost event costs time and never correctness. A slot is
// taken only if it was read in the same round.
//
// That a heartbeat stayed at H is seen in its first reading: ZooKeeper numbers
// its transactions in one order, so whoever has heard of a later one knows since
// when, on its own clock, the heartbeat has been as it is.
//
// # Evenness
//
// Two sums tell how even the slots are, one of each group and one of all slots:
// that of the squares of the instances' numbers, each divided by the weight. A
// move makes the one of its group smaller, or leaves it and makes the one of all
// slots smaller. A slot that is the only one of its group counts as without one.
package lease

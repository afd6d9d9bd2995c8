// Package coord keeps one instance in its group. It is the switchboard of the rooms that do the work:
//
//	session   the connection, and the one goroutine that everything below runs on
//	member    is this instance part of the group, and who else is?
//	catalog   which jobs and slots are there, and which can run here?
//	owner     carries out the ownership protocol; says what guards a transaction
//	journal   keeps the tick records and requests of owned slots
//	keeper    looks after ticks that other instances own
//
// A room knows those above it in this list and calls them; it never calls one below. What those should
// hear of, it tells as a notice (session.Loop.Tell), which the switchboard passes on later in the same
// turn; see handle. A watch event goes the same way; see route.
//
// # Order
//
// Joining: the roots, the registrations, then the ephemeral node, then the declared jobs, which only a
// member may write, then everything else: when the others see the newcomer they know everything that
// it can run, and compute its share once. Leaving: the state "stopping" is published first, so that
// nobody counts on us; idle slots are offered at once, the others when their run has ended and its
// result is written; then, when nothing is taken any more, the registrations and the ephemeral node
// go, in one transaction, and the session is closed.
package coord

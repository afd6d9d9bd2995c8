// Package deputy is the room of an instance that watches the other owners: when one does not claim a run that
// is due, an instance that could take the slot relieves it, whatever has become of the owner. So a crash costs
// an idle job a fraction of a second, not a session.
//
// Every instance is a deputy of each slot that it can run and does not own. The first of them, in an order that
// differs from slot to slot, reads the slot's tick record a grace after each tick, together with all others
// that are due at that moment. The next ones look a grace later each if they have not seen the owner claim anything since the
// run was due: it may be dead, and the first deputy with it. Otherwise they look seldom. What is found overdue is told to the ownership protocol
// (lease.Overdue), which proves it and takes the slot; see rule (c) in package lease. What becomes of the run is then
// decided as after any other takeover.
//
// # Overload
//
// A deputy must not make matters worse when owners are late because everything is late.
//
//   - It waits three times as long as readings, its own loop and the owners' runs have been late of late. A claim does not
//     count that is late because another owner died: one of a tick that came before the owner's first claim.
//   - It relieves nobody while one of its claims waits for longer than the least grace, or a run of a slot that it has owned for longer
//     than the present one.
//   - It waits again as long as it sees that the owner has claimed something since the run was due.
//   - What it takes must be due by ZooKeeper's clock, and is read once more before.
//
// To take a slot from a late owner is not an error, only a waste.
package deputy

// Package deputy is the room of an instance that watches the other owners: when one does not claim
// a run that is due, an instance that could take the slot relieves it, whatever has become of the
// owner. So a crash costs an idle job a fraction of a second, not a session.
//
// Every instance is a deputy of each slot that it can run and does not own. The first of them, in
// an order that differs from slot to slot, reads the slot's tick record a grace after each tick,
// together with all others that are due at that moment. The next ones look a grace later each if
// they have not seen the owner claim anything since the run was due: it may be dead, and the first
// deputy with it. Otherwise they look seldom. A run that is found overdue is reported to the
// ownership protocol (lease.Overdue), which proves it and takes the slot; see rule (c) in package
// lease. The fate of the run is then decided as after any other takeover.
//
// # Overload
//
// A deputy must not make matters worse when owners are late because everything is late.
//
//   - It waits three times as long as readings, its own loop and the owners' runs have been late of
//     late. A claim does not count that is late because another owner died: one of a tick that came
//     before the owner's first claim.
//   - It relieves nobody while one of its claims waits for longer than the least grace, or a run of
//     a slot that it has owned for longer than the present one.
//   - It waits again as long as it sees that the owner has claimed something since the run was due.
//   - A run whose slot it takes must be due by ZooKeeper's clock, and its record is read once more
//     before.
//
// To take a slot from a late owner is not an error, only a waste.
//
// # Who looks
//
// A hash of ID and slot orders the instances that can run a slot and do not own it. The first
// deputy reads up to 256 tick records in one request. The third looks a grace after the second,
// because the first deputy may count on an instance that died before it joined. If the records
// that the second has read as the first deputy of other slots show that the owner lives, as they
// nearly always do, it looks once in 15 s, and the third in 30 s. A retry that is due is found in
// the same way. Of operators' requests the first deputy is told (package signals). In latch mode
// only the leader takes slots, so nobody is a deputy. A job that always runs ends at a time that
// nobody can know: its first deputy looks every 15 s.
//
// Two versions of the time zone database, or of the rules for schedules, give two instances
// different ticks, and each would find the other's ticks unclaimed. So nothing is overdue while
// the last run of a slot is of a tick that the schedule does not have here, although it was in
// force (ticks.Foreign). The job stays with one of them, and the other one says so in its log,
// once per owner. It gets the job by (a) or (b).
//
// # Patience
//
// Half of the lateness that is measured is forgotten after 2 s, and the wait is never less than
// Config.ClaimGrace. A run that has waited for Config.MaxRunning does not count as late. A deputy
// leaves an instance in peace that has just become the owner. An instance that was relieved is
// offered nothing for as long as one that ignores an offer, then gets its share back. If it has to
// be relieved again soon, that takes twice as long each time, up to four times as long.
package deputy

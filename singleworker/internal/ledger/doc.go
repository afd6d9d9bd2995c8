// Package ledger checks a group's writes, transaction by transaction, against the library's
// guarantees. It is fed with ZooKeeper's transaction log, of a real server by package txnaudit or
// of the simulation's, and remembers only the content of the tree: its memory does not grow with
// the log.
//
// Rules lists the promises that can be judged from writes that were made. The writes do not show
// how handlers worked and when they ended, whether an instance believed in a lease that was over,
// whether a tick was run in time, and who read which node. The simulation, which sees the
// instances, too, judges those.
//
// The clock that counts is the one in the log, which is the ordering server's. It is used for one
// thing, the age of an owner's last sign of life, and only if one leader has ordered both. No two
// clocks are compared.
package ledger

// Package txnaudit proves from a ZooKeeper server's own files that a group of instances kept the
// rules. ZooKeeper orders all writes and keeps them in its transaction log. An audit reads that
// log, and the snapshots beside it, and verifies for each transaction that it was allowed: that no
// tick was claimed twice, that each change of owner was legal, that fencing tokens grew, that every
// tick is accounted for, and that all shards of a job ran a tick under one number. It needs no
// connection and trusts no instance; the same rules judge the simulation.
//
// If ZooKeeper itself has lost transactions, which the versions of later writes show, the report
// has them as losses, and later ones are judged by the records that ZooKeeper had left.
//
// A log has only writes that were made. So an audit does not tell how handlers worked or when they
// ended, whether a run began in time, or which operations read or were refused.
package txnaudit

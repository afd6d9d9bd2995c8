// Package txns reads ZooKeeper's transaction logs of a whole life of a group: who owned each slot,
// which ticks were claimed and how each ended, and which promises the transactions break by
// themselves. Tests compare it with the processes' own records.
//
// Times are by the wall clock of the server that ordered the transaction.
package txns

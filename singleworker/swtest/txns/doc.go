// Package txns reads ZooKeeper's transaction logs of a whole life of a group: who owned each slot,
// what was claimed and what became of it, and which promises the transactions break by themselves.
// Tests compare it with what processes wrote down.
//
// Times are by the wall clock of the server that ordered the transaction.
package txns

// Package owner is the room of an instance that carries out the ownership protocol (package lease):
// it reads slots and the group, takes, releases and yields slots, sends heartbeats, and keeps the
// table of leases that runs ask for.
//
// It alone has the checks of a transaction that only a slot's owner may make; see [Owner.Guard].
//
// A take under rule (c) proves that no run is open. It creates an ephemeral node below the tick
// node, reads the records after that, and deletes the node in the transaction. The owner record
// must be as the protocol knows it, by its mzxid, and the run must be due by ZooKeeper's clock,
// which is the time of that creation.
package owner

// Package owner is the room of an instance that carries out the ownership protocol (package lease):
// it reads slots and the group, takes, releases and yields slots, sends heartbeats, and keeps the
// table of leases that runs ask for.
//
// It alone says what guards a transaction that only a slot's owner may make; see [Owner.Guard].
package owner

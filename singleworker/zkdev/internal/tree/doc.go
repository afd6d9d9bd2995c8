// Package tree is what a ZooKeeper server knows, as a pure state machine: nodes,
// watches and sessions; (state, request, now) to (state, reply, events, transactions).
//
// It starts no goroutine, reads no clock, takes no lock and knows no connection but
// by its number. Equal states and equal inputs give equal outputs, in equal order.
//
// A write goes through two steps, as in ZooKeeper. prepare checks it against the tree as
// the operations before it in the same transaction will leave it, and makes a change of
// it; commit applies changes, which cannot fail. So a multi of which one operation
// is refused has changed nothing, and nothing has to be undone.
//
// Every write takes a zxid, also one that is refused. What a session does is
// refused by nobody here: whether it is alive, its owner asks with Touch.
package tree

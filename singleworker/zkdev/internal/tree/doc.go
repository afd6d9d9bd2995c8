// Package tree is the state of a ZooKeeper server as a pure state machine of nodes, watches and
// sessions: (state, request, now) to (state, reply, events, transactions).
//
// It starts no goroutine, reads no clock, takes no lock, and knows connections only by number.
// Equal states and inputs give equal outputs in equal order.
//
// A write takes two steps, as in ZooKeeper. prepare checks it against the tree as the earlier
// operations of the same transaction will leave it, and turns it into a change; commit applies
// changes, which cannot fail. So when one operation of a multi is refused, nothing has changed and
// nothing has to be undone.
//
// Every write consumes a zxid, even a refused one. The package does not check whether the client's
// session is alive: the caller does, with Touch.
package tree

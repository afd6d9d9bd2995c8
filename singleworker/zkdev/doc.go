// Package zkdev is an in-process, in-memory server that speaks ZooKeeper's client protocol. It is
// FOR DEVELOPMENT AND TESTS, NEVER FOR PRODUCTION: it is a single server without an ensemble,
// writes nothing to disk, and loses everything when it ends. Package durable is the same server
// with files, and for production on one machine.
//
//	server := zkdev.Start(t, zkdev.Config{}) // stopped when the test ends
//	client.Connect(server.Addr())            // any ZooKeeper client
//
// A test can cause on purpose the faults that a real server has only by accident: cut a connection
// between a write and its reply ([Server.Control]), expire a session ([Server.ExpireSession]), take
// a client off the network ([Server.Partition], [Client]), restart ([Server.Restart]), lose
// acknowledged transactions ([Server.Restore], [Server.Renew], [Server.Reset]), be a read-only
// server without a quorum ([Server.SetReadOnly]), and let a client read from a server that is
// behind ([Client.Lag]). [Server.Log] returns every transaction, for checkers that do not trust the
// clients.
//
// # Virtual time
//
// [Server.Dial] and [Client.Dial] connect without a network. With Config.NoListen the server opens
// no socket, so it works inside a testing/synctest bubble: all its goroutines block on channels and
// conditions only, and sessions expire in virtual time.
//
// # Compatibility
//
// The reference is ZooKeeper 3.8, standalone: version 3.8.0 as packaged by Debian 12, which, like
// 3.8.4 and later, sends no watch event to a client that may not read the node. A differential test
// sends the same random operations to both and compares every byte: zxids, versions, the order of
// children and of watch events, and the errors of requests that no client library would send.
//
// Unsupported, and refused with Unimplemented: container and TTL nodes, persistent and recursive
// watches (addWatch), SASL. Reconfiguration is refused as on a server that has it disabled. There
// are no quotas (nodes below /zookeeper/quota are ordinary nodes), no admin HTTP server and no
// super user. As in ZooKeeper, session passwords are derived from session ids, so do not let
// untrusted clients connect. The server listens on loopback only.
//
// # Ordering
//
// One goroutine at a time holds all state that clients can see, so requests are applied one after
// the other. On each connection, replies arrive in the order of the requests, and a watch event
// arrives before any reply that shows the change. Functions passed to Control run there, too.
//
// # Code
//
// The internal packages start no goroutines: wire is the protocol as bytes, tree the server as a
// state machine. In this package, core is the state that one goroutine at a time owns, life is the
// goroutines from a start to the next stop, and conn is one connection with its reader and writer.
// Below them is a Store, if there is one.
package zkdev

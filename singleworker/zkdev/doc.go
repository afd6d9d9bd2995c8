// Package zkdev is a server that speaks ZooKeeper's client protocol, in the process
// and in memory. It is FOR DEVELOPMENT AND TESTS, NEVER FOR PRODUCTION: it is one server and no
// ensemble, writes nothing to a disk, and forgets everything when it ends.
//
//	server := zkdev.Start(t, zkdev.Config{}) // stopped when the test ends
//	client.Connect(server.Addr())            // any ZooKeeper client
//
// A test can do to it what a real server does only by accident: cut a connection between a
// write and its reply ([Server.Control]), end a session ([Server.ExpireSession]), take
// a client off the network ([Server.Partition], [Client]), and restart ([Server.Restart]).
// [Server.Log] has every transaction, for a checker that trusts no client.
//
// # Virtual time
//
// [Server.Dial] and [Client.Dial] connect without a network. A server with
// Config.NoListen opens no socket at all, so it works inside a
// bubble of testing/synctest: every goroutine of it blocks on channels only, and
// sessions expire in virtual time.
//
// # What it is compared with
//
// ZooKeeper 3.8, standalone: 3.8.0 as Debian 12 has it, which like 3.8.4 and later tells no
// event to a client that may not read the node. A differential test sends both the
// same random operations and compares every byte: zxids, versions, the order of children
// and of watch events, and the errors of requests that no client library would send.
//
// Not here, and refused with the error Unimplemented: container and TTL nodes, persistent and
// recursive watches (addWatch), SASL. A reconfiguration is refused as a server
// refuses it that has it disabled. Not here either: quotas (nodes under
// /zookeeper/quota are nodes like others), TLS, an admin HTTP server, and the super
// user. Passwords of sessions follow from their ids, as in ZooKeeper: do not let
// strangers connect. It listens on loopback only.
//
// # Order
//
// One goroutine at a time has everything that clients can see, so requests are applied
// one after the other. On each connection replies come in the order of requests, and the
// event of a watch before any reply that shows the change. Functions given to
// Control run there, too.
//
// # Finding one's way
//
// The packages below internal have no goroutine: wire is the protocol as bytes, tree
// the server as a state machine. In this one, core is what one goroutine at a time owns, a
// life is the goroutines from one start to the next stop, and conn is one connection
// with its reader and writer.
package zkdev

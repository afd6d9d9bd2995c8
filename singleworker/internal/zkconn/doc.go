// Package zkconn is the only package that uses the ZooKeeper client library. It adds features that
// the library lacks and hides its traps:
//
//   - a connect string with a chroot: paths are prefixed and the chroot is created;
//   - calls that end with their context; an abandoned call may still be applied;
//   - the session timeout granted by the server, read from the handshake;
//   - connection attempts whose time limit, including the handshake, leaves the session time to try
//     the next server; names that are resolved at each attempt, TLS, frames of bounded length;
//   - a connection of the library for each session, so that no request is sent in a later session
//     than the one in which it was made;
//   - a session that is given up after its timeout if a server hangs up because it knows less than
//     the session has seen, as one does that was restored from a backup, and one that has expired
//     if a server answers with another, as ClickHouse Keeper does;
//   - reading from a server that has lost its quorum, if that is asked for;
//   - bulk reading: hundreds of nodes, and their watches, in one request;
//   - session and watch events as one ordered stream that drops nothing;
//   - errors that name the operation and the path and wrap a sentinel of this package; [IsUnknown]
//     answers the most important question about them.
//
// It knows nothing about jobs, owners or leases.
//
// Each change of a job's nodes by operators, by declaring code, or by watchers goes through
// [MultiOn]: it costs two more requests. A client whose change may have been made, and was not
// answered, does not repeat it at the next job of that name.
//
// The traps of the library, and the remedy of this package:
//
//   - it drops session events when its channel is full: they are taken from the callback, into a
//     mailbox;
//   - it answers a request whose write failed with the network's error, and a second time later: a
//     failed write closes the connection, and there is one answer, "lost"; so it does at Close,
//     and while it repeats credentials;
//   - it gives the dialer a second and the body of the handshake no deadline: one deadline for
//     both, a share of the session timeout; Close hangs up;
//   - it resolves names once, and waits a second before it reconnects to a single server: resolved
//     at each attempt, at once after a connection that lasted;
//   - it keeps a watch that is set twice, twice, and tells one callback of events: one watch at a
//     time, and any number of subscribers in the same order ([Conn.Subscribe]);
//   - watches set in bulk and watches of a single read end at different times with a connection,
//     and the library sets its own again only some time after it has connected again: the others
//     are set by their readers, and a watch of one kind does not replace one of the other;
//   - it trusts lengths and counts in replies, and panics in goroutines that nobody can recover:
//     each frame is read whole and walked through, by the type of the request that it answers;
//   - it returns an error for codes and replies that it does not know: only known codes are
//     answers, any other outcome is unknown and read again, after a pause ([ErrUnclear]);
//   - it sets its watches again with a setWatches, on which a server hangs up that does not know
//     it: there, a watch of a former connection is told as a change, and [Conn.ReadMany] does
//     without, too;
//   - it reports a session that is resumed with a shorter timeout like any other: every lease
//     ends, as it was counted with the longer one.
package zkconn

// Package zkconn is the only package that uses the ZooKeeper client library. It adds what the library
// lacks and hides its traps:
//
//   - a connect string with a chroot: paths are prefixed and the chroot is created;
//   - calls that end with their context; an abandoned call may still be applied;
//   - the session timeout granted by the server, read from the handshake;
//   - connection attempts whose time limit, including the handshake, leaves the session time to try
//     the next server; names that are resolved at each attempt, TLS, frames of bounded length;
//   - a connection of the library for each session, so that no request is sent in a later session than
//     the one in which it was made;
//   - a session that is given up after its timeout if a server hangs up because it knows less than the session has
//     seen, as one does that was restored from a backup;
//   - bulk reading: hundreds of nodes, and their watches, in one request;
//   - session and watch events as one ordered stream that drops nothing;
//   - errors that name the operation and the path and wrap a sentinel of this package; [IsUnknown]
//     answers the most important question about them.
//
// It knows nothing about jobs, owners or leases.
package zkconn

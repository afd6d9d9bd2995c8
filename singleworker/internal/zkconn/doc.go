// Package zkconn is the one place that speaks through the ZooKeeper client
// library. It adds what the library lacks and takes away what it must not do:
//
//   - a connect string with a chroot, whose paths are prefixed and whose root
//     is created;
//   - calls that end with their context. A call given up on may still be
//     applied;
//   - the session timeout that the server granted, read off the handshake;
//   - attempts to connect, with the handshake, that leave the session time for
//     the next server; names that are resolved at each of them, TLS, frames of
//     bounded length;
//   - session and watch events as one ordered stream that drops nothing;
//   - errors that name the operation and the path and wrap one of this
//     package's sentinels; see [IsUnknown] for the one question that matters.
//
// It knows nothing of jobs, owners or leases.
package zkconn

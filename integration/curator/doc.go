// Package curator tests package latch together with the implementation whose nodes it shares:
// Apache Curator's LeaderLatch, in Java, on a real ZooKeeper server.
//
// The kernel detects two leaders: every contender is a process that takes a lock on one file when
// it acquires leadership, and releases it when it loses leadership or dies. If two lead at the same
// time, the lock is refused.
package curator

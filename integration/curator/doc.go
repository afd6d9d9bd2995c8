// Package curator holds the test of package latch beside the one whose nodes it shares:
// Apache Curator's LeaderLatch, in Java, on a real ZooKeeper server.
//
// The judge of who leads is the kernel: every contender is a process, and takes a
// lock on one file when it gains the leadership, which it releases when it loses it or
// dies. Two leaders at one moment are a lock refused.
package curator

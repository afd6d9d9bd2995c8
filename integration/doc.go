// Package integration has the end-to-end tests: instances in the test's process and
// in separate processes, the operator's library and swctl, on real ZooKeeper
// servers, with real kills, network partitions and hung processes.
//
// Every test has a cluster: one group of instances on a server. At its end, every
// test checks the invariants: no tick of a job ran twice, no two runs of one job
// overlapped, and no fencing token decreased.
//
// Package chaos tests groups under faults in random order.
//
// Tests do not depend on the layout of records, except where they simulate manual
// edits or the published sample.
package integration

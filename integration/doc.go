// Package integration holds the tests of the whole: instances in the test's own
// process and in processes of their own, the operator's library and swctl, on real
// ZooKeeper servers, with real kills, cut networks and hung processes.
//
// Every test is a cluster: one group of instances on a server. Whatever else a test
// is about, its end checks what must hold always: no tick of a job ran twice, no two
// runs of one job overlapped, and no fencing token went back.
//
// Nothing here reads records by their layout, except where a test plays an operator's
// hand, or the published sample, that wrote them.
package integration

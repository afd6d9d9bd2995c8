// Package diff holds zkdev against a real ZooKeeper: the same random operations
// go to both, as raw frames, and every byte that comes back is compared. It contains
// nothing but tests.
//
//	go test ./integration/diff -diff.n=100000 -diff.seed=7
//
// And it runs the clients that others wrote on zkdev: ZooKeeper's own zkCli, and
// kazoo for Python.
package diff

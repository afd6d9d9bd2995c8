// Package diff compares zkdev with a real ZooKeeper: it sends the same random operations to both,
// as raw frames, and compares every byte of the replies. It contains only tests.
//
//	go test ./integration/diff -diff.n=100000 -diff.seed=7
//
// It also runs third-party clients on zkdev: ZooKeeper's zkCli, and kazoo for Python.
package diff

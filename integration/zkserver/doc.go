// Package zkserver runs real ZooKeeper servers for this module's integration
// tests, and breaks them: killed, stopped, suspended, restarted, or cut off from
// a client by a [Proxy] in between.
//
// It knows processes, ports and the few bytes of ZooKeeper's protocol that end a
// session. It does not know what the tests keep in ZooKeeper.
//
// Everything it starts belongs to a test and ends with it, however the test ends:
// when a cleanup returns, the processes are gone, the connections are closed and
// the goroutines have been joined. Methods may be called from several goroutines,
// except that those that can fail the test (all but Addr and ExpireSession) must be
// called from the test's own, as [testing.TB.FailNow] demands.
//
// A machine without ZooKeeper fails the tests, and says what to install: once, where
// TestMain calls [Main]. It never skips them. Servers are started through integration/zookeeper.sh.
// The package is for Linux, where a server also dies with the test process.
package zkserver

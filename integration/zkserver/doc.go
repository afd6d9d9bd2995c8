// Package zkserver runs real ZooKeeper servers, alone or as ensembles, for integration tests. Tests
// can kill, stop, suspend and restart them, or disconnect a client with a [Proxy] in between.
//
// It handles processes, ports and the part of ZooKeeper's protocol that closes a session. It does
// not know the tests' nodes in ZooKeeper.
//
// Everything that it starts belongs to a test and ends with it, however the test ends: when a
// cleanup returns, processes have exited, connections are closed and goroutines have ended. Methods
// are safe for concurrent use, but those that can fail the test (all but Addr and ExpireSession)
// must be called from the test's goroutine, as required by [testing.TB.FailNow].
//
// Without ZooKeeper on the machine the tests fail, never skip, and print what to install: only once
// if TestMain calls [Main]. Servers are started by integration/zookeeper.sh. The package is for
// Linux, where a server is also killed when the test process dies.
package zkserver

// Package health answers the probes of a supervisor, such as Kubernetes, over HTTP:
//
//	/livez    is the process worth keeping?
//	/readyz   can the instance take jobs now?
//
// An instance that has lost ZooKeeper is alive and not ready: a restart would not help it. One that
// stands by in latch mode is ready, for it can lead. One that is draining, drained, disabled or
// stopping is not. An instance is no longer alive when its coordinator hangs for more than a
// minute, or Manager.Run has ended while the process continues.
//
// The package listens to nothing: mount the handler on a server of the application.
package health

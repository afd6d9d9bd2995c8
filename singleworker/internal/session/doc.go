// Package session is the lowest room of an instance: its connection to ZooKeeper and the one
// goroutine, the loop, on which everything else of the instance runs.
//
// Requests run beside the loop and post their outcome back as a closure. Posted closures are facts:
// they queue without bound and none is dropped. Nothing in the loop waits.
//
// Each posted closure begins a turn. The notices and closures that result are deferred
// ([Loop.Defer], [Loop.Tell]) and run in order before the next one, so that no room is re-entered
// while it works. The writes of a turn travel in as few transactions as possible, in the lanes of
// [Lane].
package session

// Package swtest runs whole groups for tests: a zkdev server and any number of instances,
// each with the production code from the Manager down. Inside a bubble of testing/synctest
// nothing of it needs a network or real time, so an hour of a group passes in a second.
//
// # Real and unreal parts
//
// Real: the Manager and all below it, the ZooKeeper client with its timeouts and its reconnects,
// gocron, the bytes on the connection, and the server's sessions. Not real:
//
//   - A kill ([Instance.Kill]). A goroutine cannot be killed, so the instance is cut off from the
//     server permanently, its handlers' contexts end, and nothing that it does from then on is
//     recorded or reaches any other. Its goroutines wind down in virtual time and are joined at the
//     end.
//   - A pause of a process ([Instance.Stall]). The goroutines of one instance cannot be stopped
//     among the others. Its connection hangs instead: nothing is sent or received, deadlines of the
//     connection do not end it, and messages under way arrive when the stall is over, however late.
//     Timers of the instance keep running, unlike a stopped process's, so it notices that its
//     leases run out; its handlers may hang, too, if they call [Instance.Stalled].
//
// Every goroutine is joined when the Cluster is closed, which the end of the test does.
//
// # The record
//
// Handlers themselves record their runs ([Cluster.Runs]), beside the Manager and its hooks: [Run]
// also says when its right to run ended, which is when its context did. The owners are read from
// the server's transaction log ([Cluster.Owners]), not asked of the instances.
package swtest

// Package durable is a ZooKeeper server for one machine, which keeps all that it acknowledges: the
// server of package zkdev with a log and snapshots on disk.
//
//	server, err := durable.Open(durable.Config{Dir: "/var/lib/singleworker"})
//	...
//	defer server.Close()
//
// On its machine, clients of the same user also find it by its directory: they connect to
// "file:/var/lib/singleworker", which is a socket in version-2 below that. With Config.NoListen, a
// program of one replica brings its server along, without a port: see sample/embedded.
//
// # Guarantees
//
// Nobody sees anything of a transaction before it is on disk, with an fsync: no reply, no watch
// event, no other client's read. All transactions that arrive while the disk is busy share one
// fsync. After a crash of the process or of the machine, the server has all that it has
// acknowledged, in the same order, and no transaction number is used again. If the disk is full or
// an fsync fails, the server stops. It is for one machine: a disk that breaks takes the
// data with it.
//
// Sessions survive a restart, as ZooKeeper's do. The clock never goes back, not even across a
// restart, and a leap of the machine's clock by more than 30 s is followed after ten minutes only:
// instances on the same machine would otherwise see no difference between theirs and ZooKeeper's.
//
// # Files
//
// The files are as ZooKeeper 3.8 has them, in version-2 below the directory: transaction logs
// (log.ZXID) and snapshots (snapshot.ZXID). A ZooKeeper starts from them, and the server starts
// from a ZooKeeper's, with the same transaction numbers. It begins a new epoch where an ensemble
// has been. Containers and nodes with a time to live are refused when it starts. Three snapshots
// are kept, and the logs since the oldest of them. A copy of the directory is a backup: [Restore]
// makes a directory of it that goes on above the numbers of the server that was lost.
//
// A lock refuses a second process. ZooKeeper takes no such lock: never start it on the directory of
// a server that runs.
//
// # Code
//
// The store appends, writes snapshots and removes old files. recover.go begins with the files that
// a crash has left. Both know files by the interface fileSystem, so that tests can crash between
// any two of its calls.
package durable

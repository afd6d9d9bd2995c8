// Package zxids reads the numbers of ZooKeeper's transactions. The high half of a number is the
// epoch: the term of the leader that ordered the transaction, one more with each election. A
// restore that passes over [Leap] epochs is in the numbers themselves: whoever has a number from
// before it sees by the next one that there was a restore.
package zxids

// EpochBits are the bits of a number below its epoch: a leader counts with them.
const EpochBits = 32

// Epoch returns the epoch of a transaction. Times are comparable within one.
func Epoch(zxid int64) int64 { return zxid >> EpochBits }

// Leap is how many epochs a restore passes over. The lost servers can have held Leap/2 elections
// since the last number that is known of them, and a reader can be away for as many, one each
// minute for three weeks. After 31 restores numbers are beyond 2^53, where JavaScript rounds, and
// there is room for some 32,000.
const Leap = 1 << 16

// Restored reports whether the servers were restored with a leap between two transactions.
func Restored(from, to int64) bool { return Epoch(to)-Epoch(from) >= Leap/2 }

// Package txnlog reads what a ZooKeeper server keeps on disk: transaction logs (log.*) and
// snapshots (snapshot.*), as versions 3.4 to 3.9 write them.
//
// It trusts nothing that it reads. Every length is capped, memory grows with what is really there
// rather than with what a length claims, and checksums are verified. It treats damage as ZooKeeper
// does when it starts: a log ends where its preallocated zeros begin, and a torn record ends it,
// too, which is reported; anything else is ErrCorrupt.
package txnlog

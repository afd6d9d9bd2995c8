// Package txnlog reads the files of a ZooKeeper server: transaction logs (log.*) and snapshots
// (snapshot.*), as versions 3.4 to 3.9 write them. It writes them as 3.8 does with the digests of
// its tree disabled, which every version reads.
//
// It trusts nothing that it reads. Every length is capped, memory grows with the real content
// rather than with a claimed length, and checksums are verified. It treats damage as ZooKeeper does
// when it starts: a log ends where its preallocated zeros begin, and a torn record ends it, too,
// which is reported; anything else is ErrCorrupt.
package txnlog

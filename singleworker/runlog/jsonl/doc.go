// Package jsonl keeps run logs as files of JSON lines, one directory for each group. It is a
// runlog.Store.
//
// A line is an entry, as runlog.Entry encodes it, so that jq, grep and log shippers can read it:
//
//	{"seq":7,"slot":"report","job":"report",...,"kind":"run","at":"...","tick":"...","state":"ok",...}
//
// An entry that is told again, because its row of ticks has grown or its result came late, is a new
// line with the same slot, incarnation and key, and counts instead of the former one.
//
// The position of the log in each job's history follows from the lines themselves. So there is
// nothing beside the file that could be ahead of it: a process that is killed while it writes
// leaves a line that is torn, which the next one moves away and writes again. Each batch is synced
// to the disk before it counts. A file that is full (Options.MaxBytes) is followed by another one,
// whose first line has all positions; files are named by the first number that can be in them.
//
// One process writes; it holds a lock on the file "lock", which the system releases when the
// process ends. Any number may read. The directory must be on a local disk: locks of network file
// systems are not to be trusted. Links in it are not followed.
package jsonl

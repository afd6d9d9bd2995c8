// Package bench measures groups of real processes on a real ZooKeeper: their cost at rest and while
// jobs run, starts, joins, stops and deaths, ticks that are due in the same second or cannot be
// claimed in it, claims, jitter, what each field costs, limits, memory, swctl, and those who look
// at pages. Where there is a limit or a rival, it is measured in the same run: transactions without
// anything around them, and gocron alone.
//
//	make bench-cluster                               everything; takes more than two hours
//	make bench-cluster ROWS=rest,start SIZES=100x6   two rows of one group of 100 jobs and 6 instances
//	make bench-cluster COUNT=3 | tee new.txt         three times, for benchstat old.txt new.txt
//	make bench-cost                                  the table of costs; takes most of an hour
//	make bench-cost SYSTEMS= ROWS=rest WINDOW=30s    the part of it that is about rest, measured for 30 s
//
// As an ordinary test, it measures a small group, so that every row keeps working.
//
// The table of costs (cost_test.go) is one list: each figure of a row and group, its meaning, its
// goal, and the figure that it stands beside. The figures of gocron with redis and of River are
// those that package compare has just measured, with kills and lateness. A goal that is missed
// fails no test.
//
// The server is ZooKeeper as integration/zookeeper.sh runs it, with its data on tmpfs if /dev/shm
// is writable. Each instance is a process (package instance), started before the measurement, which
// counts its slots and runs. A time ends when the test has read the last count that was waited for.
//
//   - Requests, events and bytes that are sent are the server's own counters (mntr). Requests
//     include pings, which the instances count, too; bytes that are sent do not include the answers
//     to pings, of 20 bytes each.
//   - Bytes that are logged are read from the server's transaction log, by kind of node: "alive/*"
//     are heartbeats, "alive" owner records, "tick" claims and results, "checks" their guards.
//     These are the bytes of one server, without snapshots and preallocation.
//   - CPU is the system's account of each process.
//   - A KB has 1000 bytes.
package bench

// Package bench measures groups of real processes on a real ZooKeeper: requests in rest, starts, joins, stops and
// deaths, ticks that are due in the same second or cannot be claimed in it, claims, memory, swctl, and those who look at pages. Where there is a limit or a rival, it is
// measured in the same run: transactions without anything around them, and gocron alone.
//
//	make bench-cluster                               everything; takes most of an hour
//	make bench-cluster ROWS=rest,start SIZES=100x6   two rows of one group of 100 jobs and 6 instances
//	make bench-cluster COUNT=3 | tee new.txt         three times, for benchstat old.txt new.txt
//
// As an ordinary test, it measures a small group, so that every row keeps working.
//
// The server is ZooKeeper as integration/zookeeper.sh runs it, with its data on tmpfs if /dev/shm is writable. Each
// instance is a process (package instance), started before the measurement, which counts what it owns and
// what it runs. Requests are those that the server has received, without the pings of the instances. A time
// ends when the test has read the last count that was waited for.
package bench

// Package compare runs the same jobs with singleworker and with its alternatives: gocron with a
// lock in redis, River's periodic jobs on PostgreSQL, and a Quartz cluster on PostgreSQL. It is a
// module beside the library, because the library must not depend on them.
//
//	make compare                            everything; takes twenty minutes
//	make compare SYSTEMS=gocron,singleworker
//
// The work is first nine jobs that are due every second and take a tenth of one, on three processes
// of which one after the other is killed and started again, then a thousand jobs that are due every
// five seconds and take no time. At its end a run appends a line to a file: which job, which tick,
// and when it began. These lines are all that is judged.
//
// At last a thousand jobs are due every second for twenty seconds, and the table tells the
// processor time of a run: of the processes, and of the server with all that it has started. It
// includes their needs when nothing is due.
//
// Servers run on the same machine, with their data on tmpfs if there is one, and do not sync it.
// Every system has its defaults, but for singleworker's session timeout, which is 4 s, and for a
// second set of settings of Quartz, which its manual recommends for many triggers.
//
// Lines that begin with Benchmark have the figures for benchstat, and for the table of make
// bench-cost.
//
//	make compare-crowd                      gocron and singleworker; takes two minutes
//	make compare-crowd PHASES=20 SESSIONS=4s,10s,30s KILLS=2
//	make compare-crowd PHASES=960ms,500ms
//
// Here 600 jobs are due every second and do nothing, 200 in each of three processes, and processes
// are killed at chosen parts of a second. A job whose run was cut off waits: singleworker's until
// the session ends, gocron's until its lock expires. They are counted as begun, and those that run
// again as repeated: a run may have ended before the kill, and its result was not recorded.
// Everything else is judged of the other jobs. A tick is lost if it has not been run by three
// seconds after the last one that is judged.
//
// The runs that had begun are read from the server after the kill, which is exact. With
// singleworker it is each tick record with a run of the dead process and no result: nobody may take
// such a job before the session ends, and the session is seen to be there after the last record was
// read. With gocron it is each lock that was taken before the kill and is still there. A run is
// early if its tick had not come when the process died; that is a failure.
//
// The limit in the table is the longest pause with gocron, and 0.4 s. It is there if both run.
package compare

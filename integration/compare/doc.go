// Package compare runs the same jobs with singleworker and with what one would take instead: gocron with a lock in redis,
// River's periodic jobs on PostgreSQL, and a Quartz cluster on PostgreSQL. It is a module beside the library, because
// the library must not depend on them.
//
//	make compare                            everything; takes a quarter of an hour
//	make compare SYSTEMS=gocron,singleworker
//
// The work is first nine jobs that are due every second and take a tenth of one, on three processes of which one after the
// other is killed and started again, then a thousand jobs that are due every five seconds and take no time. At its end
// a run appends a line to a file: which job, which tick, and when it began. These lines are all that is judged.
//
// Servers run on the same machine, with their data on tmpfs if there is one, and do not sync it. Every system has its
// defaults, but for singleworker's session timeout, which is 4 s, and for a second set of settings of Quartz, which its
// manual recommends for many triggers.
package compare

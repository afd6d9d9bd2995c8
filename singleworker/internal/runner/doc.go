// Package runner runs the jobs that an instance owns: gocron is the alarm
// clock, everything after the alarm is here. It knows schedules and handlers;
// it knows neither ZooKeeper nor other instances.
//
// One goroutine, the loop, owns the jobs' states. gocron's tasks only post
// "tick due" to it and return: gocron kills the process when a task panics,
// cancels running tasks when their job is removed, and spins while it waits
// for a slow one. A run has a goroutine and a context of its own:
//
//	alarm, wake-up, request ─▶ decide ─▶ commit ─▶ handler ─▶ commit of the result ─▶ decide
//	                             │          │         │
//	                             │          │         └ its context ends with the right to run
//	                             │          └ refused: decide anew, on what the record says now
//	                             └ package ticks: nothing, or a change of the job's record
//
// What is not written has not happened: a run starts when its commit stands,
// and a decision that could not be written is made again.
//
// A tick is the scheduled time, never the time of the alarm.
package runner

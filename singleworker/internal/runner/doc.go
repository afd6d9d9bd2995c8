// Package runner runs the jobs that an instance owns. gocron is the alarm clock;
// everything after the alarm happens here. The package knows schedules and
// handlers, but neither ZooKeeper nor other instances.
//
// One goroutine, the loop, owns the jobs' states. gocron's tasks only post
// "tick due" to it and return, because gocron kills the process when a task
// panics, cancels running tasks when their job is removed, and spins while it
// waits for a slow one. Each run has its own goroutine and context:
//
//	alarm, wake-up, request ─▶ decide ─▶ commit ─▶ handler ─▶ commit of the result ─▶ decide
//	                             │          │         │
//	                             │          │         └ its context ends with the right to run
//	                             │          └ refused: decide again, based on the current record
//	                             └ package ticks: nothing, or a change of the job's record
//
// What is not written has not happened: a run starts after its commit succeeded,
// and a decision that could not be written is made again.
//
// A tick is the scheduled time, never the time at which the alarm went off.
package runner

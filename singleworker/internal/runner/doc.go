// Package runner runs the jobs that an instance owns: gocron is the alarm
// clock, everything after the alarm is here. It knows schedules and handlers;
// it knows neither ZooKeeper nor other instances.
//
// One goroutine, the loop, owns the jobs' states. gocron's tasks only post
// "tick due" to it and return: gocron kills the process when a task panics,
// cancels running tasks when their job is removed, and spins while it waits
// for a slow one. A run has a goroutine and a context of its own:
//
//	alarm ─▶ tick due ─▶ claim ─▶ handler ─▶ result
//	            │          │         │
//	            │          │         └ its context ends with the right to run
//	            │          └ refused: somebody claimed the tick; not ours; lease over
//	            └ still running: the tick is skipped
//
// A tick is the scheduled time, never the time of the alarm.
package runner

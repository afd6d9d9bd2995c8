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
// Nothing has happened until it is written: a run starts after its commit succeeded, and a decision
// that could not be written is made again.
//
// A tick is the scheduled time, never the time at which the alarm went off.
//
// The Runner owns jobs and decides. It stands on parts that do not know it. The alarms tell which
// jobs have a tick now. The line knows whether another run may begin, and which jobs wait for that.
// The outbox has decisions written, many at once. The runs are on their way through their handlers,
// and are looked at when they may hang.
//
// A limit on runs in progress (Config.MaxRunning) is kept by the instance alone. A decision that
// would open a run beyond it is not written, and the job waits in line until a run has ended; then
// the decision is made again. So a tick that waits is unclaimed, and a deputy that has room takes
// the slot. One that has none relieves nobody.
//
// Claims are not made before the tick: a crash would cost the session for jobs that have not
// begun, as it does for those that run. gocron's pace, some 20 µs per alarm, delays nobody. A run
// whose handler was not called because the instance stops or drains is not_begun: the next owner
// repeats it as the same attempt, whatever the policy says. The runner reads the history when a
// run has taken a minute, or Job.HungAfter, and calls OnRunHung at the time that ticks.HangsFrom
// gives. Timers run on the monotonic clock. When it and the wall clock have diverged by more than
// 100 ms, the alarms are reset within a second.
package runner

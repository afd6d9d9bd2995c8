// Package singleworker runs timed jobs on exactly one of N equal instances of
// an application. The instances share the jobs through Apache ZooKeeper: no
// leader, no database. Kill one, and the others adopt its jobs; add one, and
// it takes its share.
//
//	m, err := singleworker.New(singleworker.Config{Servers: "zk1:2181,zk2:2181/prod", ServerType: "billing"})
//	err = m.Handle("daily-stats", func(ctx context.Context, run *singleworker.Run) error { ... })
//	err = m.Schedule(singleworker.Job{Name: "daily-stats", Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"})
//	err = m.Run(ctx) // blocks until ctx is done and every job is handed back
//
// # What is guaranteed
//
//   - A job has one owner at a time, as ordered by ZooKeeper.
//   - A tick, one scheduled time of a job, is claimed in ZooKeeper before it
//     runs, and is claimed once, whatever the clocks of the instances say.
//   - Every tick is accounted for: it is run, or the job's history says when and
//     why it was not. What came while nobody owned the job, its next owner runs
//     or records, as [Job.Misfire] says.
//   - A job with [Job.Shards] is owned, claimed and accounted for shard by shard,
//     and each tick has one number of shards.
//   - An owner that loses contact has the contexts of its runs cancelled, with
//     the cause [ErrLeaseLost], before another instance can own the job.
//
// # What is not
//
// No lease can stop a process that the kernel has paused in the middle of a
// write, nor a handler that ignores its context. A handler whose target can
// compare passes [Run.Token] along, which grows with every change of owner,
// and the target refuses older ones.
//
// A job that is cancelled, and submitted again while its owner is cut off, is
// another job of the same name: the run of the old one goes on until its lease
// ends. The same goes for an instance whose session somebody ends by force, or
// whose node below _instances somebody deletes: until it notices, its runs go
// on. No tick is claimed twice all the same, and tokens grow.
//
// A run whose instance dies half-way is run again, or it is not, as
// [Job.Interrupted] says: there is no third way.
//
// # Time
//
// A job's schedule is computed in the job's own time zone, UTC by default, so
// that every instance computes the same ticks. Instances never compare their
// clocks; a clock that is wrong makes its instance's ticks early or late, not
// double.
package singleworker

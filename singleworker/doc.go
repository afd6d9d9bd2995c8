// Package singleworker runs scheduled jobs on exactly one of N equal instances
// of an application. The instances share the jobs through Apache ZooKeeper,
// without a leader or a database. If one is killed, the others take over its
// jobs; if one is added, it takes its share.
//
//	m, err := singleworker.New(singleworker.Config{Servers: "zk1:2181,zk2:2181/prod", ServerType: "billing"})
//	err = m.Handle("daily-stats", func(ctx context.Context, run *singleworker.Run) error { ... })
//	err = m.Schedule(singleworker.Job{Name: "daily-stats", Schedule: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"})
//	err = m.Run(ctx) // blocks until ctx is done and every job is handed back
//
// A tick is one scheduled time of a job, a run is one call of its handler. The
// guide, GUIDE.md in the package's directory, explains the other terms.
//
// # What is guaranteed
//
//   - A job has one owner at a time, as ordered by ZooKeeper.
//   - A tick is claimed in ZooKeeper before it runs, and only once, even if the
//     instances' clocks are wrong.
//   - Every tick is accounted for: it is run, or the job's history says when and
//     why it was not. Ticks that were due while the job had no owner are run or
//     recorded by its next owner, according to [Job.Misfire].
//   - A job with [Job.Shards] is owned, claimed and accounted for shard by shard,
//     and each tick has one number of shards.
//   - An owner that loses contact has the contexts of its runs canceled, with
//     the cause [ErrLeaseLost], before another instance can own the job.
//
// # What is not
//
// No lease can stop a process that the kernel has paused in the middle of a
// write, nor a handler that ignores its context. A handler whose target can
// compare passes [Run.Token] along, which grows with every change of owner,
// and the target refuses lower ones.
//
// A job that is canceled and submitted again while its owner is cut off is
// another job of the same name: the run of the old one continues until its lease
// ends. The same holds if someone ends an instance's session from outside, or
// deletes its node below _instances. Even then no tick is claimed twice, and
// tokens grow.
//
// A run whose instance dies half-way is repeated or not, according to
// [Job.Interrupted]; there is no third way, unless somebody can tell what the run has done: a
// [Resolver].
//
// # Time
//
// A job's schedule is computed in the job's time zone, UTC by default, so
// that every instance computes the same ticks. Instances never compare their
// clocks: a wrong clock makes its instance's ticks early or late, not double.
package singleworker

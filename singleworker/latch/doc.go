// Package latch elects one leader among any number of processes, using Apache ZooKeeper. It is
// independent of the rest of this module: it knows nothing about jobs.
//
//	l, err := latch.New(latch.Config{Servers: "zk1:2181,zk2:2181/prod", Path: "/billing/leader"})
//	err = l.Lead(ctx, func(ctx context.Context) error {
//		return work(ctx) // on one process at a time; ctx ends when leadership is lost
//	})
//
// Most programs want [Latch.Lead]. A program that checks now and then whether it is the leader
// calls [Latch.Run] in the background and [Latch.Held] or [Latch.Await] where it needs to know.
// A Latch is also an Elector for gocron; see [Latch.IsLeader].
//
// # Guarantees
//
//   - At most one contender on a path sees [Latch.Held] return true at any time, whatever their
//     clocks say. A contender that loses its connection stops holding immediately.
//   - Contenders lead in the order in which they arrived. Each watches only the one before it.
//   - A contender keeps its place until its work as leader has ended: until the function passed
//     to Lead, or Hooks.OnLost, has returned.
//
// Leadership passes on within a few milliseconds when a leader stops cleanly. When a leader dies,
// it passes on when its session expires; see Config.SessionTimeout.
//
// # Limits
//
// No lock service can stop a process that is paused between checking its leadership and acting on
// the result. Resources that need protection must compare fencing tokens: [Term.Token] increases
// with every change of leader, so they can refuse a token lower than the highest one seen.
//
// If someone deletes the leader's node or closes its session manually, the next contender can
// start leading before the old leader is notified, usually some milliseconds later.
//
// # Interoperability with Java
//
// The nodes have the format of LeaderLatch in Apache Curator 5, so Java and Go programs can contend
// for the same leadership. Curator's contenders give a weaker guarantee: one that was paused for
// longer than its session can believe that it leads until ZooKeeper tells it otherwise. The fencing
// token of a Java contender is the czxid of its node (getOurPath).
//
// The design follows Curator's LeaderLatch; Lead follows its LeaderSelector with autoRequeue.
package latch

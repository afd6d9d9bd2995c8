// Package latch elects one leader among any number of processes, through Apache
// ZooKeeper. It needs nothing else of this module, and knows nothing of jobs.
//
//	l, err := latch.New(latch.Config{Servers: "zk1:2181,zk2:2181/prod", Path: "/billing/leader"})
//	err = l.Lead(ctx, func(ctx context.Context) error {
//		return work(ctx) // on one process at a time; ctx ends when it leads no more
//	})
//
// [Latch.Lead] is what most programs want. Those that ask now and then whether they lead
// call [Latch.Run] in the background, and [Latch.Held] or [Latch.Await]; a Latch is also
// an Elector for gocron, see [Latch.IsLeader].
//
// # What is guaranteed
//
//   - Of all contenders on one path, [Latch.Held] is true on one at a time, whatever
//     their clocks say, and false on one that has lost its connection, at once.
//   - First come, first led: contenders lead in the order in which they came. Each
//     watches the one before it and nothing else.
//   - A contender gives up its place when what it did as a leader has ended, not
//     before: when the function given to Lead, or Hooks.OnLost, has returned.
//
// Leadership passes on within a few milliseconds when a leader stops in good order, and
// when its session ends if it dies: see Config.SessionTimeout.
//
// # What is not
//
// Nothing can stop a process that is paused between asking whether it leads and acting on
// the answer. Let what is acted upon compare tokens: [Term.Token] grows with
// every change of leader, and whoever has seen a higher one refuses a lower.
//
// If somebody deletes the leader's node, or ends its session from outside, the next one may
// lead before this one has heard of it, some milliseconds as a rule.
//
// # With Java
//
// The nodes are those of LeaderLatch of Apache Curator 5, so programs that use it stand in
// the same queue. Its contenders keep a promise less: one that was paused for
// longer than its session may believe that it leads until it hears from
// ZooKeeper. The czxid of a Java contender's node (getOurPath) is its token.
//
// The ideas are Curator's LeaderLatch and, of Lead, its LeaderSelector with autoRequeue.
package latch

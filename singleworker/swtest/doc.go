// Package swtest helps to test applications that use singleworker: that a job ran once, who owns
// it, and that it survives the death of an instance. [New] starts an in-process ZooKeeper (package
// zkdev) for a test, and instances that run the application's handlers with the same code as in
// production.
//
//	c := swtest.New(t, swtest.Config{})
//	one := c.Start("one", handlers)
//	c.Start("two", handlers)
//	c.Submit(singleworker.Job{Name: "report", Schedule: "* * * * * ?"})
//	c.AwaitRuns("report", 3)
//	one.Kill()
//	c.AwaitOwner("report", "two")
//	c.AssertOnce("report")
//
// It is for tests only. Do not import it in production code.
//
// # Real and virtual time
//
// In a testing/synctest bubble time is virtual: hours pass in milliseconds, and an hourly job can
// be tested as it is. Create the Cluster inside the bubble, and do not use the network there.
// Instances do most of their work several times per session timeout, so a bubble costs some 3 ms
// for each of them and three instances: two days take minutes with the default of 1 s, and seconds
// with ten minutes. Outside a bubble the same test takes real time, so the default durations are
// short.
//
// # Explore
//
// [Explore] looks for the faults that handlers do not survive. It starts the group again and again,
// each time under faults drawn from another seed, and expects that the handlers' effects are there
// once, in order, and not by an instance that has lost its lease:
//
//	func payments() swtest.Plan {
//		return swtest.Plan{
//			Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly"}},
//			Handlers: func(p swtest.Process) map[string]singleworker.Handler {
//				return map[string]singleworker.Handler{"pay": pay(p.World.Effects)}
//			},
//			Check: func(w *swtest.World) error { return w.Complete("pay") },
//		}
//	}
//
//	func TestPayments(t *testing.T) { swtest.Explore(t, payments()) }
//
// A failure is shrunk to the fewest faults and printed as a Go test. Faults strike at any time, and
// exactly at a [Point]: each handler has one before and one after it, [Effects] have them around
// each append, and fakes of other systems call Point themselves, before and after each change. So
// nothing of it is in production code. Each scenario has a fresh World, and each process fresh
// handlers. A day with three instances takes about half a second of one core.
//
// # Killing
//
// To the other instances, [Instance.Kill] looks like SIGKILL: the instance is cut off from the
// server without notice, and its session lives until the server has not heard from it for the
// session timeout. But a goroutine cannot be killed: a handler's context ends, and the record
// leaves out all that the handler does after that.
package swtest

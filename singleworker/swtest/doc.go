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
// be tested as it is. Create the Cluster inside the bubble, and do not use the network there. A
// longer Config.SessionTimeout makes long periods cheaper. Outside a bubble the same test takes
// real time, so the default durations are short.
//
// # Killing
//
// To the other instances, [Instance.Kill] looks like SIGKILL: the instance is cut off from the
// server without notice, and its session lives until the server has not heard from it for the
// session timeout. But a goroutine cannot be killed: a handler's context ends, and the record
// leaves out all that the handler does after that.
package swtest

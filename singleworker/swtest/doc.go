// Package swtest helps an application to test what it does with singleworker: that a job ran
// once, who owns it, and what happens when an instance dies. [New] gives a test a ZooKeeper
// of its own, in the process (package zkdev), and instances that run the application's handlers with
// the same code as in production.
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
// It is for tests. Nothing that an application links for production should import it.
//
// # Real and virtual time
//
// Inside a bubble of testing/synctest time is virtual: hours pass in moments, and
// an hourly job can be tested as it is. Make the Cluster inside of the bubble, and use
// no network there. A longer Config.SessionTimeout makes long times cheaper. Outside of a bubble the same test takes real time; the
// default durations are short for that reason.
//
// # Killing
//
// [Instance.Kill] is what SIGKILL looks like to everybody else: the instance is cut off from
// the server, says goodbye to nobody, and its session lives on until the server has missed
// it for the session timeout. A goroutine cannot be killed, though: a handler's context ends, and
// what it does after that is not recorded.
package swtest

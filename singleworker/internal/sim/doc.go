// Package sim is the simulation of whole groups: TestSimulation runs instances with the production
// code on a zkdev server, in virtual time, under random faults, and a checker judges the server's
// transaction log and the recorded runs. It has nothing but tests.
//
// A seed decides on the faults and their times, on latencies, on ids and jitter, and on the order
// of an instance's messages at one instant. Messages never arrive together, and each loop of an
// instance finds all that has happened at the instant at which it was woken up. So a violation
// comes again when its seed is run again: in at least 19 of 20 runs, which this command counts for
// every planted breach:
//
//	go test ./singleworker/internal/sim -run TestViolationComesAgain -sim.again=20 -v
//
// Some things are not the seed's, and two runs of a seed differ in the end because of them:
//
//   - The executors of gocron hand over the alarms of one instant in any order. The runner sorts
//     the alarms of one tick, but not the consequences of a late alarm.
//   - The ZooKeeper client fails its requests in the order of a map when a connection is lost, and
//     its selects decide whether a request that was made at that instant is sent.
//   - Several bulk reads of one instant keep the order in which the client's goroutines send them.
//   - Timers and contexts that are due at one instant, such as timeouts of runs and ends of leases,
//     wake their goroutines in any order.
//   - Operators' requests have ids that package uuid draws, and records name the process. Both are
//     of one length.
//   - The journal samples the slots that it looks at to tell whether it is late, and the balance
//     adds up shares in the order of a map.
package sim

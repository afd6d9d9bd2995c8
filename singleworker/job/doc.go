// Package job describes a job: its handler, its schedule, its arguments, and the fate of ticks that
// do not go as planned.
//
// A [Job] is the same in code (singleworker.Manager.Schedule), for an operator
// (package admin), in a file and in ZooKeeper. Its names in JSON are a contract:
// they are added to, and never changed. YAML has the same names; a program that
// reads YAML converts it to JSON first, which has the checks of
// [Job.UnmarshalJSON] and the payload's form.
package job

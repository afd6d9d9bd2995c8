// Package ticks decides the fate of every tick of a slot: whether the owner runs it, when, and how
// often, and the entry in the history of a tick that is not run. It is a pure function of the
// slot's records and the time. Missed ticks are computed from the last claim in ZooKeeper, never
// from a process's memory, so a new owner knows as much as a long-standing one.
//
// Every tick ends in exactly one state. The record's Watermark separates the
// ticks that are accounted for from those that are not. It only grows, each
// change of the record includes the outcome of the ticks it passes, and the
// record's version lets one change win. So no tick is claimed twice, and none
// is lost.
//
// Times are read from the owner's clock. An owner whose clock is fast claims
// ticks early: each still runs once, and nothing is due until the time has
// caught up with Watermark. An owner whose clock is slow claims ticks late.
//
// Policy names follow Quartz (misfire) and the usage common to job schedulers
// (overlap, retry, backoff).
//
// A tick up to a second late is run whatever the policy says, because a hand-over may take that
// long. The spec keeps its last eight former schedules, because nobody may have owned the job
// between two changes; older ones are counted by the oldest that is kept. A claimed tick more than
// a minute in the future is logged as an error at adoption; the remedy is to cancel the job and
// submit it again. A record without a watermark counts from the time at which it was written, on
// ZooKeeper's clock. A new schedule begins after the last tick that an owner whose clock is ahead
// has claimed of the old one.
//
// # Jobs after jobs
//
// The ticks of a job after others (@after) are the times that all of its parents have: each in its
// schedule, or in the former one that held then. So they follow from the specs of its ancestors,
// and each decision about them checks that these are the same jobs, in the same versions. Tick T is
// run when all parents have run T with state ok, which never changes once it is written: a claim
// checks no record of a parent, and an owner may know less than there is, and waits. The owner of a
// child watches the tick record of each parent; nobody else does, nor for a job that is not a
// child.
//
// A parent has run T if its history, or the run in its record, has an entry of T, scheduled or by
// name, that is ok. It may still do so while T is after its watermark, or after the tick before a
// run that is open or to be repeated. Otherwise the entry of T says how it went. If the history has
// none, it is forgotten. The child decides on T when all parents are done with it, or at the
// deadline: T + Deadline, or the child's next tick. Then T is run, if all are ok. If one is not, a
// row says so with its name and how it went there. If one had not run T by the deadline, T is
// missed. So T is run once, and a later success of a parent starts no child.
//
// To wait is no lateness: T came when the last parent was seen to be ok, and from then on all
// policies hold. AlarmAfter counts from the deadline. A child whose parent is not there, or can be
// no parent, is invalid. So are jobs that wait for each other, which submit refuses.
//
// A job that always runs has no ticks. Each of its runs is one: the time at which it was due,
// which the claim writes as the watermark. The next one is due at restart_at, which is written
// with the result, or by the next owner when it finds a run open that nobody runs: the end of the
// run and a pause, Backoff, doubled for each of the restarts before it, or none if the run was
// ended for the job to move. If its owner dies and the job has another schedule by then, the run
// is recorded as interrupted and not repeated. When its spec changes in anything but a pause, the
// run ends, and the next one begins here.
package ticks

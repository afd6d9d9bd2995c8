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
// A job that always runs has no ticks. Each of its runs is one: the time at which it was due,
// which the claim writes as the watermark. The next one is due at restart_at, which is written
// with the result, or by the next owner when it finds a run open that nobody runs: the end of the
// run and a pause, Backoff, doubled for each of the restarts before it, or none if the run was
// ended for the job to move. If its owner dies and the job has another schedule by then, the run
// is recorded as interrupted and not repeated. When its spec changes in anything but a pause, the
// run ends, and the next one begins here.
package ticks

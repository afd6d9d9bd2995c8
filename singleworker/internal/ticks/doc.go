// Package ticks decides what becomes of every tick of a slot: whether the
// owner runs it, when, and how often, and what the history says of a tick that
// is not run. It is a pure function of the slot's records and the time. Missed
// ticks are computed from the last claim in ZooKeeper, never from a process's
// memory, so a new owner knows as much as a long-standing one.
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
package ticks

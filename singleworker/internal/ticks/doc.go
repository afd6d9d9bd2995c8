// Package ticks decides what becomes of every tick of a slot: whether its
// owner runs it, when, and how often; and what is written down of one that is
// not run. It is a pure function of the slot's records and the time: what was
// missed is computed from the last claim in ZooKeeper and from nothing that a
// process remembers, so that an owner that has just come knows as much as one
// that was always there.
//
// Every tick ends in one state. The record's Watermark is the line that
// separates the ticks that are accounted for from those that are not; it only
// grows, each change of the record carries what the ticks that it passes have
// come to, and the record's version lets one change win. So no tick is claimed
// twice, and none is passed over.
//
// Time is that of the owner's clock. An owner whose clock is ahead claims ticks
// early: each is run once all the same, and nothing is due until the time has
// caught up with Watermark. One whose clock is behind claims them late.
//
// The names of the policies are Quartz's (misfire) and those that job
// schedulers share (overlap, retry, backoff).
package ticks

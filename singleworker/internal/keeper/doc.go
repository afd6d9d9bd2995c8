// Package keeper is the room of an instance that looks after ticks of slots that other instances
// own.
//
// [Keeper]: the owner of a job's first slot follows the tick nodes of all its shards, by watches.
// It records which ticks all shards are done with, and it reshards the job:
//
//  1. A change of the spec leaves the layout as it is (zkrec.Spec.Over). No further tick is claimed
//     from then on: claims check the spec's version, and under this one a slot's ticks end with the
//     last that it has claimed.
//  2. The keeper reads how far each slot has claimed and writes the latest of these ticks to the
//     spec. It cannot grow any more. The slots run up to it, so every shard has run it under one
//     layout.
//  3. When every slot is done, the keeper writes the next layout, in a transaction that checks that
//     every tick node still is as it was read. Then it deletes the nodes of former shards.
//
// The first of these tasks is modelled on ElasticJob's once-per-cluster listener; there, a leader
// reshards, and instances wait for it with no run under way.
//
// [Overdue]: every instance knows every schedule, so each is the others' dead man's switch. A tick
// that nobody has accounted for in time is noticed by all and reported by the one that writes the
// slot's alarm node first.
//
// # Complete ticks and jobs that are done
//
// A tick is complete when every shard's watermark has passed it and its last run has an outcome.
// The keeper writes that to shards, in a transaction that checks that it still owns the first
// slot, and then reports it to Hooks.OnTickComplete: once, or not at all if it dies or loses the
// slot at that moment. Ticks that no shard has run are not reported. A lost reply has the record
// read again, and the next keeper continues from it. New shards begin, and slots of former shards
// lose their history, at the layout's beginning. Ticks that were due during a reshard are late by
// as long as the last run took. While a run to be repeated waits for the end of a pause, the
// change waits, too. BeforeTick belongs to the layout, like the number of shards: when it changes,
// all shards finish the ticks that any of them has claimed as it was. A job that becomes divided,
// or undivided, changes the same way.
//
// A one-shot is done when all its slots are settled, as for resharding. The keeper writes done to
// the spec in a transaction that checks that it owns the slot and that the tick records are as
// they were read, and sets each requests node at the version at which it had no children. A
// request sets that node as well, and checks the spec's version: of the two, one is refused and
// reads again. A request opens a job that is done: it counts opened in the switch up, and done
// holds for the number that it names only. Done names the time since which its schedule holds, so
// a later schedule makes it history. Each instance has a rank for the removal, by a hash, and
// waits a session timeout longer than the one before it. It creates an ephemeral node below the
// first tick, whose creation is the time by ZooKeeper's clock, and deletes all nodes in one
// transaction that checks the versions of spec and switch: a job that was opened stays. Owners
// release the slots of a job that is done, and they count in no share.
//
// # Overdue ticks
//
// Two live instances watch each job: the first by a hash of their IDs and the job's name. When one
// is gone, or its clock is wrong, the next in order takes its place. A watcher reads the tick
// record when the next tick could be overdue, by AlarmAfter, and then at most once per AlarmAfter,
// at a sync. A run in progress at a live owner excuses the job, and so does a pause. An owner
// whose last tick is foreign to the watcher has until the tick after the missing one. For slots of
// a job on every instance, a new instance has AlarmAfter first. The alarm is written by
// compare-and-set at the versions of the spec, the switch and the record that were judged; the one
// that succeeds logs an error and calls OnTickMissed. A tick record that cannot be read accounts
// for no tick after it was written, an unreadable spec raises an alarm after a minute, and one of
// a newer schema when no live instance reads it. The cost is two reads per job and tick or
// AlarmAfter, whichever is longer, and four more during a run, however many instances there are:
// with 1,000 jobs that run each minute, at most 100 reads/s of the 19,000/s that one server
// answers. A watcher that has connected again looks at each slot within AlarmAfter: the servers may
// have lost what accounted for its ticks, and the owners have that time to account for them again.
//
// A watcher that finds a spec or a tick record written more than MaxClockOffset ahead of the
// group's time writes, at the version that it read, that it was written now. The owner reads such
// a record again at each sync. A tick record that was emptied manually at that time is left alone,
// because its watermark is unknown.
package keeper

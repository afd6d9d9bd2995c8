// Package keeper is the room of an instance that looks after ticks of slots that other instances own.
//
// [Keeper]: the owner of a job's first slot follows the tick nodes of all its shards, by watches. It
// records which ticks all shards are done with, and it reshards the job:
//
//  1. A change of the spec leaves the layout as it is (zkrec.Spec.Over). No further tick is claimed
//     from then on: claims check the spec's version, and under this one a slot's ticks end with the
//     last that it has claimed.
//  2. The keeper reads how far each slot has claimed and writes the latest of these ticks to the spec.
//     It cannot grow any more. The slots run up to it, so every shard has run it under one layout.
//  3. When every slot is done, the keeper writes the next layout, in a transaction that checks that
//     every tick node still is as it was read. Then it deletes the nodes of former shards.
//
// The first of these tasks is modelled on ElasticJob's once-per-cluster listener; there, a leader
// reshards, and instances wait for it with no run under way.
//
// [Overdue]: every instance knows every schedule, so each is the others' dead man's switch. A tick
// that nobody has accounted for in time is noticed by all and reported by the one that writes the
// slot's alarm node first.
package keeper

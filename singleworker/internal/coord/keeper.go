package coord

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The owner of a job's first slot is the keeper of all its shards: it follows
// their tick nodes, by watches. It says which ticks all shards are done with,
// and it carries a job over from one layout to the next:
//
//  1. Whoever changes the spec leaves the layout as it is (zkrec.Spec.Over). From
//     then on no further tick is claimed: claims rest on the spec's version, and
//     under this one a slot's ticks end with the last that it has claimed.
//  2. The keeper reads how far each slot has claimed, and writes the latest of
//     these ticks to the spec. It cannot grow any more. The slots run up to it:
//     so every shard has run it under one layout.
//  3. When every slot is done, the keeper writes the next layout, in a transaction
//     that checks that every tick node still is as it was read.
//
// ElasticJob's once-per-cluster listener is the model of the first of these tasks; there a leader
// reshards, and instances wait for it, with no run going on.

// keeper is that view. It rests on one ownership, and one version of the spec.
type keeper struct {
	token       int64 // of the ownership of the first slot
	specVersion int32 // of the spec
	slots       []*keptSlot
	nextLook    time.Duration // Mono: when all is read again, whatever the watches said
	writing     bool          // a layout is being written

	rootKnown bool // what follows is what the job's own nodes say
	reading   onePerTime
	complete  zkrec.Complete
	version   int32           // of complete
	plain     map[string]bool // the nodes that are there of the job as a slot of its own
}

// completing is what is being written of complete ticks. It outlives a keeper: an answer that was lost
// is known when the record is read, and the first slot still is ours afterwards: nobody else has written it.
type completing struct {
	done    []ticks.Completion // not reported yet
	token   int64
	writing bool
}

// keptSlot is a slot as the keeper has read it.
type keptSlot struct {
	slot  string
	known bool
	stored
	reading onePerTime
}

// keep makes this instance the keeper of j's shards, if it is the one.
func (c *Coordinator) keep(j *job) {
	layout := j.spec.ActiveLayout()
	if !c.session.joined {
		return // the next session goes on with it
	}
	divided := layout.Shards > 0 || j.spec.Resizing() || len(j.shards.list) > 0
	var own *ownership
	if divided && j.eligible && len(j.slots) == max(1, layout.Shards) {
		own = c.owned[j.slots[0]]
	}
	if own == nil {
		j.keeper = nil
		return
	}
	k := j.keeper
	if k == nil || k.token != own.token || k.specVersion != j.version || c.cfg.Clock.Now().Mono >= k.nextLook && !k.writing {
		k = &keeper{token: own.token, specVersion: j.version, nextLook: c.nextLook()}
		for _, slot := range j.slots {
			k.slots = append(k.slots, &keptSlot{slot: slot})
		}
		j.keeper = k
	}
	if !k.rootKnown {
		c.readRoot(j, k)
	}
	for _, kept := range k.slots {
		if !kept.known {
			c.readKeptSlot(j, k, kept)
		}
	}
	c.tend(j, k)
}

// readKept reads a slot's tick node again, if we keep it.
func (c *Coordinator) readKept(slot string) {
	j := c.jobOf(slot)
	if j == nil || j.keeper == nil {
		return
	}
	if i := slices.Index(j.slots, slot); i >= 0 {
		c.readKeptSlot(j, j.keeper, j.keeper.slots[i])
	}
}

func (c *Coordinator) readKeptSlot(j *job, k *keeper, kept *keptSlot) {
	if !kept.reading.begin() {
		return
	}
	c.async("read shard", func(ctx context.Context) func() {
		var s stored
		err := c.readTick(ctx, kept.slot, c.conn.GetW, &s)
		if err == nil {
			err = c.readHistory(ctx, kept.slot, &s) // as old as the record, or newer
		}
		return func() {
			again := kept.reading.end()
			if j.keeper != k {
				return
			}
			if kept.known = err == nil; kept.known {
				kept.stored = s
			} else {
				c.log.Debug("shard not read", "job", kept.slot, "err", err) // the next sync tries again
			}
			if again {
				c.readKeptSlot(j, k, kept)
			}
			c.tend(j, k)
		}
	})
}

// readRoot reads what is known of the job as a whole.
func (c *Coordinator) readRoot(j *job, k *keeper) {
	if j.completing.writing || !k.reading.begin() {
		return // beside a write, what is read first may be from before it, and the answer come after
	}
	sharded, first := j.spec.ActiveLayout().Shards > 0, k.slots[0].slot
	c.async("read shards", func(ctx context.Context) func() {
		var complete zkrec.Complete
		var version int32
		var err error
		var alive zkconn.Stat
		if sharded {
			complete, version, err = c.readComplete(ctx, j.name)
		}
		if err == nil { // after that: who owns the slot then has owned it before
			alive, _, err = c.conn.Exists(ctx, c.tree.Alive(first))
		}
		nodes := c.tree.NewSlot(j.name, 0)
		there, errs := make([]bool, len(nodes)), make([]error, len(nodes))
		c.together(ctx, len(nodes), func(ctx context.Context, i int) {
			_, there[i], errs[i] = c.conn.Exists(ctx, nodes[i].Path)
		})
		return func() {
			k.reading.end()
			if j.keeper != k {
				return
			}
			if err = errors.Join(err, errors.Join(errs...)); err != nil {
				c.log.Debug("shards not read", "job", j.name, "err", err) // the next sync tries again
				return
			}
			k.complete, k.version, k.rootKnown = complete, version, true
			k.plain = make(map[string]bool)
			for i, node := range nodes {
				k.plain[node.Path] = there[i]
			}
			done := j.completing.done
			j.completing.done = nil
			ours := j.completing.token == k.token && alive.Mzxid == k.token
			if len(done) > 0 && ours && complete.Tick == done[len(done)-1].Tick {
				c.report(j.name, j.spec, done)
			}
			c.tend(j, k)
		}
	})
}

// tend does the next thing that the shards ask for.
func (c *Coordinator) tend(j *job, k *keeper) {
	unread := slices.ContainsFunc(k.slots, func(kept *keptSlot) bool { return !kept.known || kept.reading.running })
	if unread || !k.rootKnown || k.writing || j.completing.writing {
		return
	}
	layout := j.spec.ActiveLayout()
	if layout.Shards > 0 {
		list := make([]ticks.Shard, len(k.slots))
		for i, kept := range k.slots {
			list[i] = ticks.Shard{Record: kept.record, History: kept.history}
		}
		if done := ticks.Completed(list, max(k.complete.Tick, layout.Since)); len(done) > 0 {
			c.writeComplete(j, k, done)
			return
		}
	}
	if j.spec.Resizing() {
		c.resize(j, k, layout)
		return
	}
	former := without(j.shards.list, j.slots)
	if k.plain[c.tree.Alive(j.name)] && layout.Shards > 0 {
		former = append(former, j.name)
	}
	c.retire(j, k, former)
}

// writeComplete records that all shards are done with some ticks, and reports
// them. Only the owner of the first slot may.
func (c *Coordinator) writeComplete(j *job, k *keeper, done []ticks.Completion) {
	guards := c.guardsOf(k)
	if guards == nil {
		return
	}
	j.completing = completing{done, k.token, true}
	spec := j.spec
	complete := zkrec.Complete{Tick: done[len(done)-1].Tick}
	ops := slices.Concat(guards, []zkconn.Op{zkconn.SetOp(c.tree.Shards(j.name), complete.Encode(), k.version)})
	k.rootKnown = false
	c.async("write complete ticks", func(ctx context.Context) func() {
		stats, err := c.conn.Multi(ctx, ops...)
		return func() {
			j.completing.writing = false
			if !zkconn.IsUnknown(err) {
				j.completing.done = nil
			}
			if err != nil {
				c.log.Debug("complete ticks not written", "job", j.name, "err", err)
				return // the next sync reads what there is
			}
			c.report(j.name, spec, done)
			k.complete, k.version, k.rootKnown = complete, stats[len(stats)-1].Version, true
			if c.jobs[j.name] == j {
				c.keep(j) // another keeper than k waits for it
			}
		}
	})
}

// guardsOf are the checks without which a keeper changes nothing: that it still owns the first
// slot, and that this is not another job, submitted anew under the name: its versions may be
// the same, but our heartbeat is not there. Nil: it is known already not to.
func (c *Coordinator) guardsOf(k *keeper) []zkconn.Op {
	first := k.slots[0].slot
	own := c.owned[first]
	if own == nil || own.token != k.token {
		return nil
	}
	return []zkconn.Op{
		zkconn.CheckOp(c.tree.Alive(first), own.version),
		zkconn.CheckOp(c.tree.Heartbeat(first, c.cfg.SID), zkconn.AnyVersion),
	}
}

func (c *Coordinator) report(job string, spec zkrec.Spec, done []ticks.Completion) {
	for _, d := range done {
		c.cfg.Runner.Completed(job, spec, d)
	}
}

// resize takes the next step from a layout to the one that the spec asks for.
func (c *Coordinator) resize(j *job, k *keeper, layout zkrec.Layout) {
	if layout.Until == 0 {
		layout.Until = max(j.spec.Since, layout.Since)
		for _, kept := range k.slots {
			layout.Until = max(layout.Until, kept.record.Watermark)
		}
		spec := j.spec
		spec.Layout = &layout
		c.writeSpec(j, k, spec)
		return
	}
	var ops []zkconn.Op
	for _, kept := range k.slots {
		if !c.cfg.Settled(j.spec, kept.record) {
			return // its tick node tells when to look again
		}
		ops = append(ops, zkconn.CheckOp(c.tree.Tick(kept.slot), kept.version))
	}
	if j.spec.Shards == 0 {
		for _, node := range c.tree.NewSlot(j.name, layout.Until) {
			if !k.plain[node.Path] {
				ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
			}
		}
	}
	c.log.Info("job is divided anew", "job", j.name, "shards", j.spec.Shards, "were", layout.Shards,
		"from", time.UnixMilli(layout.Until))
	c.writeSpec(j, k, j.spec.Resized(), ops...)
}

// writeSpec replaces the job's spec, if it still is the one that we know, together
// with what else is to be done.
func (c *Coordinator) writeSpec(j *job, k *keeper, spec zkrec.Spec, ops ...zkconn.Op) {
	guards := c.guardsOf(k)
	if guards == nil {
		return
	}
	k.writing = true
	ops = slices.Concat(guards, ops, []zkconn.Op{zkconn.SetOp(c.tree.Job(j.name), spec.Encode(), j.version)})
	c.async("write layout", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, ops...)
		return func() {
			k.writing = false
			if err != nil {
				c.log.Debug("layout not written", "job", j.name, "err", err)
				if j.keeper == k {
					j.keeper = nil // the next sync looks at everything anew
				}
				return
			}
			if c.jobs[j.name] == j {
				c.refresh(j)
			}
		}
	})
}

package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// resize takes the next step from a layout to the one that the spec asks for.
func (k *Keeper) resize(j *kept, d *duty, layout zkrec.Layout) {
	if layout.Until == 0 {
		layout.Until = max(j.Spec.Since, layout.Since)
		for _, kept := range d.slots {
			layout.Until = max(layout.Until, kept.Record().Watermark)
		}
		spec := *j.Spec
		spec.Layout = &layout
		k.writeSpec(j, d, spec)
		return
	}
	var ops []zkconn.Op
	for _, kept := range d.slots {
		if !ticks.Settled(*j.Ticks, kept.Record()) {
			return // its tick node tells when to look again
		}
		ops = append(ops, zkconn.CheckOp(k.loop.Tree.Tick(kept.slot), kept.Version()))
	}
	if j.Spec.Job.Shards == 0 {
		missing := slices.DeleteFunc(k.loop.Tree.NewSlot(j.Name, layout.Until), func(n zkrec.Node) bool { return d.plain[n.Path] })
		ops = append(ops, session.CreateOps(missing)...)
	}
	k.loop.Log.Info("resharding", "job", j.Name, "shards", j.Spec.Job.Shards, "were", layout.Shards,
		"after", time.UnixMilli(layout.Until))
	k.writeSpec(j, d, j.Spec.Resized(), ops...)
}

// writeSpec replaces the job's spec, if it still is the one that is known, together with other
// changes.
func (k *Keeper) writeSpec(j *kept, d *duty, spec zkrec.Spec, ops ...zkconn.Op) {
	guard, err := k.owner.Guard(d.slots[0].slot, d.token)
	if err != nil {
		return
	}
	d.writing = true
	ops = slices.Concat(guard.Ops, ops, []zkconn.Op{
		zkconn.SetOp(k.loop.Tree.Job(j.Name), spec.Encode(), j.Version.Spec),
	})
	k.loop.Async("write layout", func(ctx context.Context) func() {
		_, err := signals.Multi(ctx, k.loop.Conn, signals.OfJob(k.loop.Tree, j.Name), ops...)
		return func() {
			d.writing = false
			if err != nil {
				k.loop.Log.Debug("layout not written", "job", j.Name, "err", err)
				if j.duty == d {
					j.duty = nil // the next sync reads everything again
				}
				return
			}
			k.catalog.Refresh(j.Job)
		}
	})
}

// retire deletes the nodes of slots that the job no longer has. Their runs have ended before, and
// under this spec nobody claims a tick of theirs.
func (k *Keeper) retire(j *kept, d *duty, slots []string) {
	if j.retiring || k.loop.Now() < j.retireNotBefore {
		return
	}
	guard, err := k.owner.Guard(d.slots[0].slot, d.token)
	if err != nil {
		return
	}
	j.retiring = true
	checks := slices.Concat(guard.Ops, []zkconn.Op{zkconn.CheckOp(k.loop.Tree.Job(j.Name), j.Version.Spec)})
	k.loop.Async("retire shards", func(ctx context.Context) func() {
		errs := make([]error, len(slots))
		session.Together(len(slots), func(i int) {
			errs[i] = k.deleteSlot(ctx, j.Name, slots[i], checks)
		})
		return func() {
			j.retiring = false
			for i, err := range errs {
				if err != nil {
					// For good, if someone created nodes below them.
					k.loop.Log.Debug("nodes of a retired shard not deleted", "job", slots[i], "err", err)
					j.retireNotBefore = k.loop.Now() + k.loop.SyncPeriod()
				}
			}
			d.rootKnown = false // the job's own nodes may have been among them
			k.catalog.Refresh(j.Job)
		}
	})
}

func (k *Keeper) deleteSlot(ctx context.Context, job, slot string, checks []zkconn.Op) error {
	tree := k.loop.Tree
	ops := slices.Clone(checks)
	remove := func(path string) { ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion)) }
	for _, node := range append(tree.NewSlot(slot, 0), zkrec.Node{Path: tree.Alarm(slot)}, zkrec.Node{Path: tree.Stack(slot)}) {
		path := node.Path
		children, _, err := k.loop.Conn.Children(ctx, path)
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		for _, child := range children {
			remove(path + "/" + child)
		}
		if path == tree.Requests(slot) && len(children) > 0 {
			k.loop.Log.Warn("pending requests dropped with the shard", "job", slot, "requests", children)
		}
		remove(path)
	}
	if slot != job {
		remove(tree.Slot(slot))
	}
	_, err := k.loop.Conn.Multi(ctx, ops...)
	return err
}

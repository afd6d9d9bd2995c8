package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// shards is what the nodes of a sharded job say.
type shards struct {
	list     []string // the slots whose nodes are there
	complete zkrec.Complete
}

// fetchShards lists the shards of a job, and has changes of the list reported.
func (c *Coordinator) fetchShards(ctx context.Context, job string) (s shards, err error) {
	names, _, err := c.conn.ChildrenW(ctx, c.tree.Shards(job))
	if errors.Is(err, zkconn.ErrNoNode) {
		return s, nil // repaired when we want to create one
	}
	if err != nil {
		return s, err
	}
	for _, name := range names {
		if shard, ok := zkrec.ParseShard(name); ok {
			s.list = append(s.list, zkrec.ShardSlot(job, shard))
		}
	}
	if s.complete, _, err = c.readComplete(ctx, job); errors.Is(err, zkconn.ErrNoNode) {
		return shards{}, nil // a hand was faster
	}
	return s, err
}

// readComplete reads up to which tick all shards of a job are done. A record
// that is not readable is one of now: nothing is to be reported twice.
func (c *Coordinator) readComplete(ctx context.Context, job string) (zkrec.Complete, int32, error) {
	data, stat, err := c.conn.Get(ctx, c.tree.Shards(job))
	if err != nil {
		return zkrec.Complete{}, 0, err
	}
	complete, err := zkrec.ParseComplete(data)
	if err != nil && !errors.As(err, new(*zkrec.SchemaError)) {
		c.log.Error("it is not readable which ticks all shards are done with: begun anew", "job", job, "err", err)
		return zkrec.Complete{Tick: time.Now().UnixMilli()}, stat.Version, nil
	}
	return complete, stat.Version, err
}

// setSlots tells the protocol which slots the job has now: those of its active
// layout whose nodes are there. A spec that is not readable changes nothing
// about that.
func (c *Coordinator) setSlots(j *job, readable bool) {
	layout := j.spec.ActiveLayout()
	if readable {
		slots := layout.Slots(j.name)
		if layout.Shards > 0 {
			slots = c.withNodes(j, slots)
		}
		gone := without(j.slots, slots)
		j.slots = slots
		for _, slot := range gone {
			c.step(lease.SlotGone{Slot: lease.Slot(slot)})
		}
	}
	group := ""
	if layout.Shards > 0 {
		group = j.name
	}
	for _, slot := range j.slots {
		c.step(lease.SlotSet{
			Slot: lease.Slot(slot), Group: group, Eligible: j.eligible && j.registered, Able: j.able,
		})
	}
}

// without lists those of all that are not among some.
func without(all, some []string) (rest []string) {
	among := make(map[string]bool, len(some))
	for _, slot := range some {
		among[slot] = true
	}
	for _, slot := range all {
		if !among[slot] {
			rest = append(rest, slot)
		}
	}
	return rest
}

// withNodes lists those of the shards whose nodes are there, and sees to it that
// the others' are made.
func (c *Coordinator) withNodes(j *job, slots []string) []string {
	missing := without(slots, j.shards.list)
	if len(missing) == 0 {
		j.lackedSince = 0
		return slots
	}
	now := c.cfg.Clock.Now().Mono
	if j.lackedSince == 0 {
		j.lackedSince = now
	}
	able := j.eligible && j.registered
	patience := c.syncPeriod()
	if !able {
		patience *= 2 // then nobody can run it; that its ticks are missed is told all the same
	}
	if able && c.isFirst(j) || now-j.lackedSince > patience {
		c.createShards(j, missing)
	} else { // somebody else does, if it is well
		j.nextLook = now + c.syncPeriod()
	}
	return without(slots, missing)
}

// isFirst reports whether this instance is the first of those that live and can
// run the job: not all need do what one can.
func (c *Coordinator) isFirst(j *job) bool {
	for _, sid := range j.able {
		if _, lives := c.peers[sid]; lives || sid == c.cfg.SID {
			return sid == c.cfg.SID
		}
	}
	return false
}

// createShards makes the nodes of shards.
func (c *Coordinator) createShards(j *job, slots []string) {
	now := c.cfg.Clock.Now().Mono
	if !c.session.joined || j.creating || now < j.createAgain {
		j.nextLook = min(j.nextLook, now+c.syncPeriod())
		return
	}
	j.creating = true
	through := j.spec.ShardsBegin(time.UnixMilli(j.spec.Since), j.shards.complete)
	var groups [][]zkconn.Op
	for _, slot := range slots {
		group := []zkconn.Op{zkconn.CheckOp(c.tree.Job(j.name), j.version)}
		for _, node := range c.tree.NewShard(slot, through) {
			group = append(group, zkconn.CreateOp(node.Path, node.Data))
		}
		groups = append(groups, group)
	}
	open := len(groups)
	c.applyBatches(groups, func(_ int, r result) {
		switch {
		case r.err == nil, errors.Is(r.err, zkconn.ErrNodeExists):
		case errors.Is(r.err, zkconn.ErrNoNode):
			c.repair(j.name) // there is no node for shards
		default:
			c.log.Debug("shard not created", "job", j.name, "err", r.err)
			j.createAgain = c.cfg.Clock.Now().Mono + c.syncPeriod()
		}
		if open--; open == 0 {
			j.creating = false
			if c.jobs[j.name] == j {
				c.refresh(j)
			}
		}
	})
}

// retire deletes the nodes of slots that are none any more. Their runs have
// ended before, and nobody claims a tick of theirs under this spec.
func (c *Coordinator) retire(j *job, k *keeper, slots []string) {
	guards := c.guardsOf(k)
	if len(slots) == 0 || guards == nil || j.retiring || c.cfg.Clock.Now().Mono < j.retireAgain {
		return
	}
	j.retiring = true
	guards = append(guards, zkconn.CheckOp(c.tree.Job(j.name), j.version))
	c.async("retire shards", func(ctx context.Context) func() {
		errs := make([]error, len(slots))
		c.together(ctx, len(slots), func(ctx context.Context, i int) {
			errs[i] = c.deleteSlot(ctx, j.name, slots[i], guards)
		})
		return func() {
			j.retiring = false
			for i, err := range errs {
				if err != nil {
					// For good, if a hand has made nodes below them.
					c.log.Debug("nodes of a retired shard not deleted", "job", slots[i], "err", err)
					j.retireAgain = c.cfg.Clock.Now().Mono + c.syncPeriod()
				}
			}
			k.rootKnown = false // the job's own nodes may have been among them
			if c.jobs[j.name] == j {
				c.refresh(j)
			}
		}
	})
}

func (c *Coordinator) deleteSlot(ctx context.Context, job, slot string, guards []zkconn.Op) error {
	ops := slices.Clone(guards)
	remove := func(path string) { ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion)) }
	for _, node := range append(c.tree.NewSlot(slot, 0), zkrec.Node{Path: c.tree.Alarm(slot)}) {
		path := node.Path
		children, _, err := c.conn.Children(ctx, path)
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		for _, child := range children {
			remove(path + "/" + child)
		}
		if path == c.tree.Requests(slot) && len(children) > 0 {
			c.log.Warn("requests are dropped with the shard that they were made of", "job", slot, "requests", children)
		}
		remove(path)
	}
	if slot != job {
		remove(c.tree.Slot(slot))
	}
	_, err := c.conn.Multi(ctx, ops...)
	return err
}

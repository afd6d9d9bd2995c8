package coord

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// repair creates the nodes that a job, or one of its shards, lacks: all of them
// are there, or none when the job was deleted, or the shard is none any more.
func (c *Coordinator) repair(slot string) {
	j := c.jobOf(slot)
	if j == nil || !c.session.joined || !j.repairing.begin() {
		return
	}
	version, created, nodes := j.version, j.created, c.nodesOf(j, slot)
	c.async("repair job", func(ctx context.Context) func() {
		err := c.createMissing(ctx, j.name, version, created, nodes)
		return func() {
			j.repairing.end()
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) && !errors.Is(err, zkconn.ErrNodeExists) {
				c.log.Debug("job not repaired", "job", slot, "err", err)
				return // the next sync tries again
			}
			c.step(lease.Look{Slot: lease.Slot(slot)})
			if t := c.ticks[slot]; t != nil {
				c.advance(t)
			}
			c.refresh(j)
		}
	})
}

// nodesOf lists the nodes that should be there, but for the job's own.
func (c *Coordinator) nodesOf(j *job, slot string) []zkrec.Node {
	layout := j.spec.ActiveLayout()
	switch _, _, sharded := zkrec.SplitSlot(slot); {
	case sharded && !slices.Contains(j.slots, slot):
		return nil // of a layout that is over
	case sharded:
		return c.tree.NewSlot(slot, 0) // a shard of which nothing is left createShards makes
	default:
		return c.tree.NewJob(j.name, zkrec.Spec{Sharding: layout.Sharding})[1:]
	}
}

// createMissing creates those of the nodes of a job that are not there, if its
// spec still is the one that says what belongs to it. When the job was deleted and
// submitted again, the version may be the same; of that only czxid tells.
func (c *Coordinator) createMissing(ctx context.Context, job string, version int32, czxid int64, nodes []zkrec.Node) error {
	stat, found, err := c.conn.Exists(ctx, c.tree.Job(job))
	if err != nil || !found || stat.Czxid != czxid {
		return err
	}
	ops := []zkconn.Op{zkconn.CheckOp(c.tree.Job(job), version)}
	for _, node := range nodes {
		_, ok, err := c.conn.Exists(ctx, node.Path)
		if err != nil {
			return err
		}
		if !ok {
			ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
		}
	}
	if len(ops) == 1 {
		return nil
	}
	_, err = c.conn.Multi(ctx, ops...)
	return err
}

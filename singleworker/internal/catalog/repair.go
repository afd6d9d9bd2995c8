package catalog

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Repair creates the nodes that a job, or one of its shards, lacks: the published sample makes
// fewer than we need, and a tree may have been edited. When the job was deleted, or the shard is no
// longer one, it creates nothing.
func (c *Catalog) Repair(slot string) {
	j := c.JobOf(slot)
	if j == nil || !c.loop.Joined() || !j.repairing.Begin() {
		return
	}
	version, created, nodes := j.Version.Spec, j.Created, nodesOf(c.loop.Tree, j, slot)
	c.loop.Async("repair job", func(ctx context.Context) func() {
		err := createMissing(ctx, c.loop, j.Name, version, created, nodes)
		return func() {
			j.repairing.End()
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) && !errors.Is(err, zkconn.ErrNodeExists) {
				c.loop.Log.Debug("job not repaired", "job", slot, "err", err)
				return // the next sync tries again
			}
			c.loop.Tell(Repaired{slot})
			c.Refresh(j)
		}
	})
}

// nodesOf lists the nodes that should exist below the job's own.
func nodesOf(tree zkrec.Tree, j *Job, slot string) []zkrec.Node {
	layout := j.Spec.ActiveLayout()
	switch part := slot != j.Name; {
	case part && !j.Has(slot):
		return nil // of a former layout
	case part:
		return tree.NewSlot(slot, 0) // createShards makes one of which nothing is left
	default:
		var spec zkrec.Spec
		spec.Job.Shards, spec.Job.Everywhere = layout.Shards, j.Spec.Job.Everywhere
		return tree.NewJob(j.Name, spec)[1:]
	}
}

// createMissing creates the nodes that do not exist, if the spec that asks for them still is the
// job's. A job that was deleted and submitted again may have a spec of the same version, but not
// the same czxid.
func createMissing(
	ctx context.Context, l *session.Loop, job string, version int32, czxid int64, nodes []zkrec.Node,
) error {
	var missing []zkrec.Node
	for _, node := range nodes {
		_, ok, err := l.Conn.Exists(ctx, node.Path)
		if err != nil {
			return err
		}
		if !ok {
			missing = append(missing, node)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	path := l.Tree.Job(job)
	_, err := l.Conn.MultiOn(ctx, path, czxid, append(session.CreateOps(missing), zkconn.CheckOp(path, version))...)
	return err
}

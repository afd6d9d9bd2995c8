package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// shards is the content of the nodes of a sharded job.
type shards struct {
	list     []string // the slots whose nodes exist; of a job that runs on every instance, this one's
	complete zkrec.Complete
}

// division is this instance's knowledge of the nodes of shards, or of its own slot, and the state
// of creating them.
type division struct {
	shards

	creating bool
	// lackedSince is, on Mono, since when some shards lack their nodes; 0: none does.
	lackedSince time.Duration
	// notBefore is, on Mono, when a creation that failed is tried again.
	notBefore time.Duration
}

// divided is the job's division, or an empty one.
func (j *Job) divided() division {
	if j.division == nil {
		return division{}
	}
	return *j.division
}

// divide is the job's division, to be changed.
func (j *Job) divide() *division {
	if j.division == nil {
		j.division = new(division)
	}
	return j.division
}

// fetchShards lists the shards of a job, and watches the list.
func fetchShards(ctx context.Context, l *session.Loop, job string) (s shards, err error) {
	names, _, err := l.Conn.ChildrenW(ctx, l.Tree.Shards(job))
	if errors.Is(err, zkconn.ErrNoNode) {
		return s, nil // repaired when a shard is to be created
	}
	if err != nil {
		return s, err
	}
	for _, name := range names {
		if shard, ok := zkrec.ParseShard(name); ok {
			s.list = append(s.list, zkrec.ShardSlot(job, shard))
		}
	}
	if s.complete, _, err = ReadComplete(ctx, l, job); errors.Is(err, zkconn.ErrNoNode) {
		return shards{}, nil // deleted in between
	}
	return s, err // with the list, even if the record cannot be read
}

// ReadComplete reads the tick up to which all shards of a job are done. It is called beside the
// loop.
func ReadComplete(ctx context.Context, l *session.Loop, job string) (zkrec.Complete, int32, error) {
	path := l.Tree.Shards(job)
	data, stat, err := l.Conn.Get(ctx, path)
	var complete zkrec.Complete
	if err == nil {
		complete, err = zkrec.ParseComplete(data)
	}
	return complete, stat.Version, session.ReadError(path, err)
}

// setSlots tells which slots the job has now: the slots of its active layout whose nodes exist. A
// spec that cannot be read changes nothing about that.
func (c *Catalog) setSlots(j *Job, readable bool) {
	layout := j.Spec.ActiveLayout()
	if readable {
		slots := layout.Slots(j.Name)
		if j.Spec.Job.Everywhere {
			slots = []string{zkrec.InstanceSlot(j.Name, c.member.ID())} // those of the others are nothing to this one
		}
		if j.Spec.Job.Everywhere || layout.Shards > 0 {
			slots = c.withNodes(j, slots)
		}
		gone := without(j.Slots, slots)
		j.Slots = slots
		for _, slot := range gone {
			c.loop.Tell(SlotGone{lease.Slot(slot)})
		}
	}
	c.tellSlots(j)
}

// tellSlots tells who can run the slots.
func (c *Catalog) tellSlots(j *Job) {
	group, able := "", j.able
	if j.Spec.ActiveLayout().Shards > 0 {
		group = j.Name
	}
	if j.Spec.Job.Everywhere {
		able = []string{c.member.ID()}
	}
	for _, slot := range j.Slots {
		c.loop.Tell(SlotSet{lease.SlotSet{
			Slot: lease.Slot(slot), Group: group, Eligible: j.Eligible && j.isRegistered && !j.Done(), Able: able,
			Always: j.Valid() && j.Ticks.Schedule.Always(), Bound: j.Spec.Job.Everywhere,
		}})
	}
}

// without lists the slots of all that are not among some.
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

// withNodes lists the slots whose nodes exist, and has the others' created. If a job runs on every
// instance, each creates its own slot, whose ticks begin then.
func (c *Catalog) withNodes(j *Job, slots []string) []string {
	d := j.divide()
	missing := without(slots, d.list)
	if len(missing) == 0 {
		d.lackedSince = 0
		return slots
	}
	now := c.loop.Now()
	if d.lackedSince == 0 {
		d.lackedSince = now
	}
	able, everywhere := j.Eligible && j.isRegistered && !j.Done(), j.Spec.Job.Everywhere
	wait := c.loop.SyncPeriod()
	if !able {
		wait *= 2 // perhaps no instance can run it, but its missed ticks must be noticed
	}
	if able && (everywhere || isFirst(c.member, j)) || !everywhere && now-d.lackedSince > wait {
		c.createShards(j, missing)
	} else { // another instance does, if it is well
		j.nextLook = now + c.loop.SyncPeriod()
	}
	return without(slots, missing)
}

// isFirst reports whether this instance is the first live one that can run the job: one is enough
// to create the nodes.
func isFirst(m *member.Member, j *Job) bool {
	for _, sid := range j.able {
		if sid == m.ID() || m.Lives(sid) {
			return sid == m.ID()
		}
	}
	return false
}

// createShards creates the nodes of shards, or of this instance's slot.
func (c *Catalog) createShards(j *Job, slots []string) {
	now, d := c.loop.Now(), j.divide()
	if !c.loop.Joined() || d.creating || now < d.notBefore {
		j.nextLook = min(j.nextLook, now+c.loop.SyncPeriod())
		return
	}
	d.creating = true
	watermark := j.Spec.ShardsBegin(d.complete)
	if j.Spec.Job.Everywhere {
		watermark = 0 // what came before this instance is not its own
	}
	groups := make([][]zkconn.Op, len(slots))
	for i, slot := range slots {
		check := zkconn.CheckOp(c.loop.Tree.Job(j.Name), j.Version.Spec)
		groups[i] = append([]zkconn.Op{check}, session.CreateOps(c.loop.Tree.NewShard(slot, watermark))...)
	}
	open := len(groups)
	c.loop.WriteAll(session.Others, groups, func(_ int, r session.Result) {
		switch {
		case r.Err == nil, errors.Is(r.Err, zkconn.ErrNodeExists):
		case errors.Is(r.Err, zkconn.ErrNoNode):
			c.Repair(j.Name) // the parent of the shards does not exist
		default:
			c.loop.Log.Debug("shard not created", "job", j.Name, "err", r.Err)
			d.notBefore = c.loop.Now() + c.loop.SyncPeriod()
		}
		if open--; open == 0 {
			d.creating = false
			c.Refresh(j)
		}
	})
}

// Stale lists the shards whose nodes exist although the active layout has no such slot.
func (j *Job) Stale() []string { return without(j.divided().list, j.Slots) }

// HasShards reports whether nodes of shards exist, of this layout or another.
func (j *Job) HasShards() bool { return len(j.divided().list) > 0 && !j.Spec.Job.Everywhere }

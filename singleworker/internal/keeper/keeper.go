package keeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Reporter hears of other instances' ticks that an instance sees. Its methods are called on the
// loop and must not block.
type Reporter interface {
	// Overdue: a tick of a slot of a job with that spec, of any owner, was not accounted for in
	// time. One instance of the group reports it, once.
	Overdue(slot string, spec *zkrec.Spec, tick time.Time)
	// Completed: all shards of a job are done with a tick, which they ran under spec. One instance of
	// the group reports it, once.
	Completed(job string, c ticks.Completion)
}

// Keeper looks after the shards of the jobs whose first slot this instance owns.
type Keeper struct {
	loop     *session.Loop
	catalog  *catalog.Catalog
	owner    *owner.Owner
	reporter Reporter
	self     string // the instance's ID

	jobs    map[*catalog.Job]*kept
	spent   map[*catalog.Job]int32 // the version of the spec by which it is
	pausing map[*catalog.Job]bool  // the pause of a failing job is being written
}

// kept is a job with shards.
type kept struct {
	*catalog.Job
	duty       *duty // nil unless this instance looks after the shards
	completing completing

	retiring        bool          // nodes of former shards are being deleted
	retireNotBefore time.Duration // Mono: when a deletion that failed is tried again
}

// duty is the state of a job's keeper. It is based on one ownership, and one version of the spec.
type duty struct {
	token    int64         // of the ownership of the first slot
	of       ticks.Version // the job's, on which it is based
	slots    []*keptSlot
	nextLook time.Duration // Mono: when everything is read again although no watch tells
	writing  bool          // a layout is being written

	rootKnown bool // what follows is what the job's own nodes say
	reading   session.OnePerTime
	complete  zkrec.Complete
	version   int32           // of complete
	plain     map[string]bool // which nodes exist of the job as an unsharded one
}

// completing is the state of writing complete ticks. It outlives a duty: when an answer was lost,
// the record tells whether it was written, if the first slot still is ours: nobody else writes it.
type completing struct {
	done    []ticks.Completion // not reported yet
	token   int64
	writing bool
}

// keptSlot is a slot as the keeper has read it.
type keptSlot struct {
	slot  string
	known bool
	journal.Stored
	reading session.OnePerTime
}

// New returns a keeper of nothing, of the instance with that ID.
func New(loop *session.Loop, c *catalog.Catalog, o *owner.Owner, r Reporter, self string) *Keeper {
	return &Keeper{
		loop: loop, catalog: c, owner: o, reporter: r, self: self,
		jobs: make(map[*catalog.Job]*kept), spent: make(map[*catalog.Job]int32), pausing: make(map[*catalog.Job]bool),
	}
}

// Joined has everything read again. All that was known is forgotten: the servers may have lost it.
func (k *Keeper) Joined() {
	for _, j := range k.jobs {
		j.duty = nil
	}
}

// KeepSlot is Keep for the job of a slot whose owner has changed.
func (k *Keeper) KeepSlot(slot string) {
	if j := k.catalog.JobOf(slot); j != nil {
		k.Keep(j)
	}
}

// Sync looks after the shards of the jobs that this sync looks at.
func (k *Keeper) Sync() {
	now := k.loop.Clock.Wall()
	k.catalog.Agenda.Due(func(job *catalog.Job) {
		k.catalog.Agenda.By(job, k.keep(job))
		if finite(job) && !k.ends(job) {
			k.catalog.Agenda.ByWall(job, job.Ticks.Schedule.Next(now), now)
		}
	})
}

// Keep looks after a job's shards, if that is up to this instance.
func (k *Keeper) Keep(job *catalog.Job) {
	k.keep(job)
	k.catalog.Agenda.Wake(job)
}

// keep is Keep, and says when it is to be called again although nothing happens, on Mono.
func (k *Keeper) keep(job *catalog.Job) (next time.Duration) {
	if !k.catalog.Current(job) {
		if j := k.jobs[job]; j != nil {
			j.duty = nil // what is being read for it is void
		}
		delete(k.jobs, job)
		delete(k.spent, job)
		return agenda.Never
	}
	if !k.loop.Joined() {
		return agenda.Never // continued when joined again
	}
	layout := job.Spec.ActiveLayout()
	j := k.jobs[job]
	if j == nil {
		if layout.Shards == 0 && !job.Spec.Resizing() && !job.HasShards() && !k.ends(job) {
			return agenda.Never
		}
		j = &kept{Job: job}
		k.jobs[job] = j
	}
	own := k.firstOwned(j, layout)
	if own == nil {
		j.duty = nil
		return agenda.Never // continued when the slot is owned
	}
	d := j.duty
	if d == nil || d.token != own.Token || d.of != j.Version || k.loop.Now() >= d.nextLook && !d.writing {
		d = &duty{token: own.Token, of: j.Version, nextLook: k.loop.NextLook()}
		for _, slot := range j.Slots {
			d.slots = append(d.slots, &keptSlot{slot: slot})
		}
		j.duty = d
	}
	if !d.rootKnown {
		k.readRoot(j, d)
	}
	for _, kept := range d.slots {
		if !kept.known {
			k.readSlot(j, d, kept)
		}
	}
	if !k.tend(j, d) {
		return 0
	}
	return d.nextLook
}

// firstOwned is the ownership that makes this instance the keeper of j, or nil.
func (k *Keeper) firstOwned(j *kept, layout zkrec.Layout) *owner.Ownership {
	kept := layout.Shards > 0 || j.Spec.Resizing() || j.HasShards() || k.ends(j.Job)
	if !kept || !j.Eligible || len(j.Slots) != max(1, layout.Shards) {
		return nil
	}
	return k.owner.Owned(j.Slots[0])
}

// TickChanged reads a slot's tick node again, if this instance keeps it.
func (k *Keeper) TickChanged(slot string) {
	j := k.jobs[k.catalog.JobOf(slot)]
	if j == nil || j.duty == nil {
		return
	}
	k.catalog.Agenda.Wake(j.Job)
	if i := slices.IndexFunc(j.duty.slots, func(s *keptSlot) bool { return s.slot == slot }); i >= 0 {
		k.readSlot(j, j.duty, j.duty.slots[i])
	}
}

func (k *Keeper) readSlot(j *kept, d *duty, kept *keptSlot) {
	if !kept.reading.Begin() {
		return
	}
	k.loop.Async("read shard", func(ctx context.Context) func() {
		s, err := journal.ReadWatched(ctx, k.loop, kept.slot)
		return func() {
			again := kept.reading.End()
			k.catalog.Report(kept.slot, err, k.loop.Tree.Tick(kept.slot), k.loop.Tree.History(kept.slot))
			if j.duty != d {
				return
			}
			if kept.known = err == nil; kept.known {
				kept.Stored = s
			} else {
				k.loop.Log.Debug("shard not read", "job", kept.slot, "err", err) // the next sync tries again
			}
			if again {
				k.readSlot(j, d, kept)
			}
			k.tend(j, d)
		}
	})
}

// root is one reading of the nodes that concern a job as a whole.
type root struct {
	complete zkrec.Complete
	version  int32
	alive    zkconn.Stat // of the first slot
	plain    map[string]bool
}

func (k *Keeper) readRoot(j *kept, d *duty) {
	if j.completing.writing || !d.reading.Begin() {
		return // what is read beside a write may be from before it, and be answered after it
	}
	sharded, first := j.Spec.ActiveLayout().Shards > 0, d.slots[0].slot
	k.loop.Async("read shards", func(ctx context.Context) func() {
		r, err := k.fetchRoot(ctx, j.Name, first, sharded)
		return func() {
			d.reading.End()
			if j.duty != d {
				return
			}
			if err != nil {
				k.loop.Log.Debug("shards not read", "job", j.Name, "err", err) // the next sync tries again
				return
			}
			d.complete, d.version, d.plain, d.rootKnown = r.complete, r.version, r.plain, true
			done := j.completing.done
			j.completing.done = nil
			ours := j.completing.token == d.token && r.alive.Mzxid == d.token
			if len(done) > 0 && ours && r.complete.Tick == done[len(done)-1].Tick {
				k.report(j.Name, done)
			}
			k.tend(j, d)
		}
	})
}

func (k *Keeper) fetchRoot(ctx context.Context, job, first string, sharded bool) (r root, err error) {
	if sharded {
		if r.complete, r.version, err = catalog.ReadComplete(ctx, k.loop, job); err != nil {
			return r, err
		}
	}
	// After that: who owns the slot then has owned it before.
	if r.alive, _, err = k.loop.Conn.Exists(ctx, k.loop.Tree.Alive(first)); err != nil {
		return r, err
	}
	nodes := k.loop.Tree.NewSlot(job, 0)
	found, errs := make([]bool, len(nodes)), make([]error, len(nodes))
	session.Together(len(nodes), func(i int) {
		_, found[i], errs[i] = k.loop.Conn.Exists(ctx, nodes[i].Path)
	})
	r.plain = make(map[string]bool)
	for i, node := range nodes {
		r.plain[node.Path] = found[i]
	}
	return r, errors.Join(errs...)
}

// tend does the next thing that the shards need. It reports whether they need nothing.
func (k *Keeper) tend(j *kept, d *duty) (rest bool) {
	unread := slices.ContainsFunc(d.slots, func(s *keptSlot) bool { return !s.known || s.reading.Running() })
	if unread || !d.rootKnown || d.writing || j.completing.writing || !k.loop.Joined() {
		return false
	}
	layout := j.Spec.ActiveLayout()
	if layout.Shards > 0 && !j.Ticks.Schedule.Always() { // the runs of its shards have nothing to do with each other
		list := make([]ticks.Shard, len(d.slots))
		for i, kept := range d.slots {
			list[i] = ticks.Shard{Record: kept.Record(), History: kept.History()}
		}
		if done := ticks.Completed(list, max(d.complete.Tick, layout.Since)); len(done) > 0 {
			k.writeComplete(j, d, done)
			return false
		}
	}
	if j.Spec.Resizing() {
		k.resize(j, d, layout)
		return false
	}
	former := j.Stale()
	if d.plain[k.loop.Tree.Alive(j.Name)] && layout.Shards > 0 {
		former = append(former, j.Name)
	}
	if len(former) > 0 { // the job is not done before: nobody would look after it
		k.retire(j, d, former)
		return false
	}
	if k.ends(j.Job) {
		k.finish(j, d)
		return false
	}
	return true
}

// writeComplete records that all shards are done with some ticks, and reports them.
func (k *Keeper) writeComplete(j *kept, d *duty, done []ticks.Completion) {
	guard, err := k.owner.Guard(d.slots[0].slot, d.token)
	if err != nil {
		return
	}
	j.completing = completing{done, d.token, true}
	complete := d.complete
	complete.Tick = done[len(done)-1].Tick
	ops := slices.Concat(guard.Ops, []zkconn.Op{
		zkconn.SetOp(k.loop.Tree.Shards(j.Name), complete.Encode(), d.version),
	})
	d.rootKnown = false
	k.loop.Async("write complete ticks", func(ctx context.Context) func() {
		stats, err := k.loop.Conn.Multi(ctx, ops...)
		return func() {
			j.completing.writing = false
			if !zkconn.IsUnknown(err) {
				j.completing.done = nil
			}
			if err != nil {
				k.loop.Log.Debug("complete ticks not written", "job", j.Name, "err", err)
				return // the next sync reads what there is
			}
			k.report(j.Name, done)
			d.complete, d.version, d.rootKnown = complete, stats[len(stats)-1].Version, true
			k.Keep(j.Job) // another duty than d may wait for it
		}
	})
}

func (k *Keeper) report(job string, done []ticks.Completion) {
	for _, d := range done {
		k.reporter.Completed(job, d)
	}
}

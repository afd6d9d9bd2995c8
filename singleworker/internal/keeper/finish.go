package keeper

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Stops hears that an owned slot has claimed as many ticks as it may, by its record, or that as
// many have failed as pause its job.
func (k *Keeper) Stops(slot string, record *zkrec.Tick) {
	job := k.catalog.JobOf(slot)
	if job == nil || !job.Valid() {
		return
	}
	if job.Ticks.Spent(*record) {
		k.spent[job] = job.Version.Spec
		k.Keep(job)
	}
	if job.Ticks.Failing(*record) && k.loop.Joined() && !k.pausing[job] {
		k.pause(job, slot, record)
	}
}

// ends reports whether the job's last tick has come, and it is not done yet.
func (k *Keeper) ends(job *catalog.Job) bool {
	if !finite(job) {
		return false
	}
	spec, spent := k.spent[job]
	return spent && spec == job.Version.Spec || job.Ticks.Schedule.Ended(k.loop.Clock.Wall())
}

// finite reports whether the job has a last tick, and is not done yet.
func finite(job *catalog.Job) bool { return job.Valid() && !job.Done() && job.Ticks.Finite() }

// finish marks a job as done whose last tick is accounted for in all slots, and of which no run is
// open or asked for. Its owners release it then.
//
// A request for a manual run changes the version of its parent and checks the version of the spec.
// So one that comes first refuses this transaction, and one that comes after it opens the job
// again, by its switch.
func (k *Keeper) finish(j *kept, d *duty) {
	for _, kept := range d.slots {
		if !ticks.Settled(*j.Ticks, kept.Record()) {
			return // its tick node tells when to look again
		}
	}
	d.writing = true
	reads := make([]zkconn.Read, len(d.slots))
	for i, kept := range d.slots {
		reads[i] = zkconn.Read{Path: k.loop.Tree.Requests(kept.slot)}
	}
	k.loop.Read(reads, func(inboxes []zkconn.ReadResult) {
		d.writing = false
		if j.duty != d || !k.loop.Joined() {
			return
		}
		ops := make([]zkconn.Op, 0, 2*len(d.slots))
		for i, kept := range d.slots {
			inbox := inboxes[i]
			if inbox.Err != nil || inbox.Stat.NumChildren > 0 || !kept.known || !ticks.Settled(*j.Ticks, kept.Record()) {
				d.nextLook = min(d.nextLook, k.loop.Now()+k.loop.SyncPeriod())
				return
			}
			ops = append(ops, zkconn.CheckOp(k.loop.Tree.Tick(kept.slot), kept.Version()),
				zkconn.SetOp(reads[i].Path, inbox.Data, inbox.Stat.Version))
		}
		spec := *j.Spec
		spec.Done = &zkrec.Done{Since: spec.Since, Opened: spec.Switch.Opened}
		k.loop.Log.Info("job done: nobody owns it any more", "job", j.Name)
		k.writeSpec(j, d, spec, slices.Clip(ops)...)
	})
}

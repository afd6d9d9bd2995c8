package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// round is one pass of readings. Each step reads all that it needs in one go, and depends on the
// one before. Tick records are read before owner records, and those before registrations: an
// instance registers before it owns, and owns before it claims.
type round struct {
	reader

	all     []*reading
	also    *beside // nil: nothing, and no histories of runs that are ok
	freeze  zkrec.ReadFreeze
	changed []*reading // to be read again: a node that is missing may belong to a shard that no longer exists

	reads []zkconn.Read
	takes []func(zkconn.ReadResult) // what is done with each
}

// want has a node read in this step. What take gets may be missing.
func (r *round) want(into *reading, read zkconn.Read, take func(zkconn.ReadResult)) {
	r.reads = append(r.reads, read)
	r.takes = append(r.takes, func(result zkconn.ReadResult) {
		switch {
		case result.Err == nil, errors.Is(result.Err, zkconn.ErrNoNode):
			take(result)
		case into.err == nil:
			into.err = result.Err
		}
	})
}

// step reads what is wanted.
func (r *round) step(ctx context.Context) error {
	results, err := r.readMany(ctx, r.reads)
	if err != nil {
		return err
	}
	takes := r.takes
	r.reads, r.takes = r.reads[:0], nil
	for i, take := range takes {
		take(results[i])
	}
	return nil
}

// each calls use for those that can be read so far.
func (r *round) each(use func(into *reading)) {
	for _, into := range r.all {
		if into.err == nil {
			use(into)
		}
	}
}

// note has more nodes read in this step, and notes the results.
func (r *round) note(reads []zkconn.Read, results *[]zkconn.ReadResult) {
	*results = nil
	for _, read := range reads {
		r.reads = append(r.reads, read)
		r.takes = append(r.takes, func(result zkconn.ReadResult) { *results = append(*results, result) })
	}
}

func (r *round) read(ctx context.Context) error {
	if r.also != nil {
		r.note(r.also.reads(), &r.also.listed)
	}
	r.reads = append(r.reads, zkconn.Read{Path: r.tree.Freeze()})
	r.takes = append(r.takes, func(result zkconn.ReadResult) { r.freeze = freezeOf(result) })
	steps := []func(*reading){r.readSpec, r.readParts, r.readTicks, r.readRest}
	for i, want := range steps {
		r.each(want)
		if i == len(steps)-1 && r.also != nil {
			r.note(zkconn.ReadsOf(r.also.paths...), &r.also.nodes)
		}
		err := r.step(ctx)
		if i == 0 && err == nil {
			err = r.readAround(ctx)
		}
		if i == 0 && err == nil && r.also != nil {
			err = r.also.take(r.also.listed)
		}
		if err != nil {
			return err
		}
	}
	if err := r.readRuns(ctx); err != nil {
		return err
	}
	r.each((*reading).conclude)
	return nil
}

// readSpec reads the spec and the switch, and the tick record that most jobs have: that of a job
// that is not divided.
func (r *round) readSpec(into *reading) {
	whole := zkrec.JobOfSlot(into.name)
	into.job.slot = whole
	r.want(into, zkconn.Read{Path: r.tree.Job(whole)}, func(result zkconn.ReadResult) {
		if into.job.spec, into.job.stat = result.Data, result.Stat; result.Err != nil {
			into.err = ErrNotFound
		}
	})
	r.want(into, zkconn.Read{Path: r.tree.Register(whole)}, func(result zkconn.ReadResult) {
		into.job.register, into.job.freeze = nodeOf(r.tree.Register(whole), result), r.freeze
		into.of = into.job.parse()
		into.of.group = r.tree.Group()
	})
	if whole == into.name {
		into.slots = []records{{slot: whole}}
		r.readTick(into, &into.slots[0])
	}
}

// readAround reads the calendars, the limits and the parents that the specs name, each once.
func (r *round) readAround(ctx context.Context) error {
	var named []*reading
	var specs []zkrec.Spec
	var limits []string
	r.each(func(into *reading) {
		names := into.of.spec.Job.LimitNames()
		if len(into.of.spec.CalendarNames()) > 0 || len(into.of.spec.ParentNames()) > 0 || len(names) > 0 {
			named, specs, limits = append(named, into), append(specs, into.of.spec), append(limits, names...)
		}
	})
	all, err := r.basis(ctx, nil, specs...)
	if err == nil && len(limits) > 0 {
		slices.Sort(limits)
		all.places, err = r.places(ctx, slices.Compact(limits))
	}
	if err != nil {
		return err
	}
	for _, into := range named {
		into.job.basis = all
		into.of = into.job.parse()
		into.of.group = r.tree.Group()
	}
	return nil
}

func (r *round) readTick(into *reading, slot *records) {
	r.want(into, zkconn.Read{Path: r.tree.Tick(slot.slot)}, func(result zkconn.ReadResult) { slot.setTick(r.tree, result) })
	r.want(into, zkconn.Read{Path: r.tree.Alarm(slot.slot)}, func(result zkconn.ReadResult) {
		if alarm, err := zkrec.ParseAlarm(result.Data); err == nil && result.Err == nil { // an unreadable alarm is ignored
			slot.alarm = &alarm
		}
	})
}

// setTick takes in the tick record. A shard may have no nodes yet: then no tick was ever claimed.
func (r *records) setTick(tree zkrec.Tree, result zkconn.ReadResult) {
	written := result.Stat.Mtime
	if result.Stat.Version == 0 {
		written = time.Time{} // created with the job: nothing was ever claimed
	}
	r.version = result.Stat.Version
	if r.tick, r.tickErr = zkrec.ParseTick(result.Data, written); r.tickErr != nil {
		r.tickErr = &zkrec.UnreadableError{Path: tree.Tick(r.slot), Err: r.tickErr}
	}
}

// readParts reads at which instances a job runs that runs on every one, or finds out which slots it
// has otherwise.
func (r *round) readParts(into *reading) {
	if !into.of.isEverywhere() {
		into.setSlots(nil)
		return
	}
	r.want(into, zkconn.Read{Path: r.tree.Everywhere(into.job.slot), Children: true}, func(result zkconn.ReadResult) { into.setSlots(result.Names) })
}

// setSlots makes room for the records of the slots. Those of a job that is not divided were read.
func (r *reading) setSlots(sids []string) {
	names, err := r.of.slots(r.name, sids)
	if err != nil {
		r.err = err
		return
	}
	if len(r.slots) != len(names) || r.slots[0].slot != names[0] {
		r.slots = make([]records, len(names))
	}
	for i := range r.slots {
		r.slots[i].slot, r.slots[i].spec, r.slots[i].stat = names[i], r.job.spec, r.job.stat
	}
}

// isDivided reports whether the whole of a job was asked for that has shards.
func (r *reading) isDivided() bool { return r.slots[0].slot != r.name && !r.of.isEverywhere() }

// readTicks reads the tick records that were not read with the specs.
func (r *round) readTicks(into *reading) {
	if into.slots[0].slot != into.job.slot {
		for i := range into.slots {
			r.readTick(into, &into.slots[i])
		}
	}
	into.after = make([]records, len(into.of.spec.Job.After))
	for i, name := range into.of.spec.Job.After {
		parent := &into.after[i]
		parent.slot = name
		r.want(into, zkconn.Read{Path: r.tree.Tick(name)}, func(result zkconn.ReadResult) { parent.setTick(r.tree, result) })
	}
	first, waits := into.of.spec.ActiveLayout().WaitsFor(into.slots[len(into.slots)-1].slot)
	if !waits {
		return
	}
	if into.first = &into.slots[0]; into.first.slot != first { // a single shard was asked for
		into.first = &records{slot: first}
		r.want(into, zkconn.Read{Path: r.tree.Tick(first)}, func(result zkconn.ReadResult) { into.first.setTick(r.tree, result) })
	}
}

// readRest reads what comes after the tick records.
func (r *round) readRest(into *reading) {
	for i := range into.slots {
		slot := &into.slots[i]
		r.readOwner(into, slot)
		if r.also != nil || slot.tick.State != "" && slot.tick.State != history.StateOK {
			r.readHistory(into, slot)
		}
	}
	r.want(into, zkconn.Read{Path: r.tree.Register(into.job.slot), Children: true}, func(result zkconn.ReadResult) {
		into.job.registered = slices.DeleteFunc(result.Names, func(name string) bool { return strings.HasPrefix(name, job.Reserved) }) // proofs
		slices.Sort(into.job.registered)
		for i := range into.slots {
			into.slots[i].registered = into.job.registered
		}
	})
	if !into.isDivided() {
		return
	}
	r.want(into, zkconn.Read{Path: r.tree.Shards(into.name)}, func(result zkconn.ReadResult) {
		if into.complete, into.completeErr = zkrec.ParseComplete(result.Data); into.completeErr != nil {
			into.completeErr = &zkrec.UnreadableError{Path: r.tree.Shards(into.name), Err: into.completeErr}
		}
	})
	r.want(into, zkconn.Read{Path: r.tree.Job(into.name)}, func(result zkconn.ReadResult) {
		if result.Stat.Mzxid != into.job.stat.Mzxid {
			r.changed = append(r.changed, into)
		}
	})
}

func (r *round) readOwner(into *reading, slot *records) {
	r.want(into, zkconn.Read{Path: r.tree.Alive(slot.slot)}, func(result zkconn.ReadResult) {
		slot.owner, _ = zkrec.ParseOwner(result.Data) // an unreadable record names no owner
		slot.ownerStat = result.Stat
	})
}

func (r *round) readHistory(into *reading, slot *records) {
	results := make([]zkconn.ReadResult, zkrec.HistoryPages)
	for i, path := range r.tree.HistoryPages(slot.slot) {
		r.want(into, zkconn.Read{Path: path}, func(result zkconn.ReadResult) {
			if results[i] = result; i == len(results)-1 && results[0].Err == nil {
				slot.history, _, slot.historyErr = historyOf(results)
			}
		})
	}
}

// readRuns reads again the tick records with an open run that does not belong to the owner. Run and
// owner are two nodes, and the run may have ended between the readings: it counts only if its
// record has not changed.
func (r *round) readRuns(ctx context.Context) error {
	for {
		r.each(func(into *reading) {
			for i := range into.slots {
				if slot := &into.slots[i]; slot.tick.Open() && slot.tick.Token != slot.ownerStat.Mzxid && !slot.settled {
					r.readAgain(into, slot)
				}
			}
		})
		if len(r.reads) == 0 {
			return nil
		}
		if err := r.step(ctx); err != nil {
			return err
		}
	}
}

// readAgain reads a tick record again, and after it what depends on it.
func (r *round) readAgain(into *reading, slot *records) {
	r.want(into, zkconn.Read{Path: r.tree.Tick(slot.slot)}, func(result zkconn.ReadResult) {
		slot.settled = result.Stat.Version == slot.version
		slot.setTick(r.tree, result)
	})
	r.readOwner(into, slot)
	r.readHistory(into, slot) // with the result, if that has come
}

package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// reading is what the records said of a job, or of one slot of it.
type reading struct {
	name  string // as it was asked for
	err   error  // why the rest could not be read
	of    parsed
	job   records   // what the slots have in common
	slots []records // in their order

	complete    zkrec.Complete // the tick up to which all shards of the job have finished
	completeErr error          // why that cannot be read
}

// records holds the records of one slot: of a job without shards, of a shard, or of a job at one instance.
type records struct {
	slot       string
	spec       []byte      // of the job
	stat       zkconn.Stat // of the spec
	registered []string    // for the job
	owner      zkrec.Owner
	ownerStat  zkconn.Stat
	tick       zkrec.Tick
	tickErr    error // why the tick record cannot be read
	tickStat   zkconn.Stat
	settled    bool // an open run is not the owner's, and that is no matter of when they were read
	alarm      *zkrec.Alarm
	gate       *ticks.Gate   // of a shard that waits for the first one; nil: nothing is known of that
	history    zkrec.History // read if it was asked for, or the last run did not succeed
	historyErr error         // why it cannot be read
}

// parsed is a spec with its schedule, or the error of parsing it. A *job.FieldError
// means that the record can be read, but the job can never run.
type parsed struct {
	spec     zkrec.Spec
	schedule *cronexpr.Schedule
	err      error
	declared bool // the spec is as declared in code
}

// parse reads the spec.
func (r records) parse() (of parsed) {
	if of.spec, of.err = zkrec.ParseSpec(zkrec.JobOfSlot(r.slot), r.spec); of.err != nil {
		return of
	}
	of.spec = of.spec.WrittenAt(r.stat.Mtime)
	of.declared = of.spec.Declared != "" && !of.spec.Overridden()
	if of.err = of.spec.Check(); of.err == nil {
		of.schedule, of.err = of.spec.Job.ParseSchedule()
	}
	return of
}

// readings reads the records of jobs, or of single slots of them: of ten thousand in as few requests as of one, but for their size. The
// histories are read if that is set. A job whose slots have changed meanwhile is read again.
func (rd reader) readings(ctx context.Context, names []string, histories bool) ([]reading, error) {
	all := make([]reading, len(names))
	left := make([]*reading, len(names))
	for i, name := range names {
		all[i].name, left[i] = name, &all[i]
	}
	for len(left) > 0 {
		r := round{reader: rd, all: left, histories: histories}
		if err := r.read(ctx); err != nil {
			return nil, err
		}
		left = r.changed
	}
	return all, nil
}

// reading reads the records of one job, or slot.
func (rd reader) reading(ctx context.Context, name string, histories bool) (reading, error) {
	all, err := rd.readings(ctx, []string{name}, histories)
	if err != nil {
		return reading{}, err
	}
	return all[0], all[0].err
}

// slots lists the slots of a name.
func (rd reader) slots(ctx context.Context, name string, of parsed) ([]string, error) {
	var sids []string
	if of.isEverywhere() {
		var err error
		if sids, err = rd.children(ctx, rd.tree.Everywhere(zkrec.JobOfSlot(name))); err != nil {
			return nil, err
		}
	}
	return of.slots(name, sids)
}

// readJob reads the spec of a job.
func (rd reader) readJob(ctx context.Context, job string) (records, error) {
	data, stat, err := rd.conn.Get(ctx, rd.tree.Job(job))
	if errors.Is(err, zkconn.ErrNoNode) {
		err = ErrNotFound
	}
	return records{slot: job, spec: data, stat: stat}, err
}

// round is one pass of readings. Its steps depend on each other, and each reads all that it needs in one go. Tick records are read before
// owner records, and those before registrations: an instance registers before it owns, and owns before it claims.
type round struct {
	reader

	all       []*reading
	histories bool
	changed   []*reading // to be read again: a node that is missing may belong to a shard that no longer exists

	reads []zkconn.Read
	takes []func(zkconn.ReadResult) // what is done with each
}

// want has r read in this step. What take gets may be missing.
func (r *round) want(of *reading, read zkconn.Read, take func(zkconn.ReadResult)) {
	r.reads = append(r.reads, read)
	r.takes = append(r.takes, func(result zkconn.ReadResult) {
		switch {
		case result.Err == nil, errors.Is(result.Err, zkconn.ErrNoNode):
			take(result)
		case of.err == nil:
			of.err = result.Err
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
func (r *round) each(use func(of *reading)) {
	for _, of := range r.all {
		if of.err == nil {
			use(of)
		}
	}
}

func (r *round) read(ctx context.Context) error {
	r.readJobs()
	if err := r.step(ctx); err != nil {
		return err
	}
	r.readParts()
	if err := r.step(ctx); err != nil {
		return err
	}
	r.each(r.readTicks)
	if err := r.step(ctx); err != nil {
		return err
	}
	r.each(r.readRest)
	if err := r.step(ctx); err != nil {
		return err
	}
	return r.readRuns(ctx)
}

// readJobs reads the specs, and the tick records that most jobs have: those of jobs that are not divided.
func (r *round) readJobs() {
	for _, of := range r.all {
		whole := zkrec.JobOfSlot(of.name)
		*of = reading{name: of.name, job: records{slot: whole}}
		r.want(of, zkconn.Read{Path: r.tree.Job(whole)}, func(result zkconn.ReadResult) {
			if of.job.spec, of.job.stat = result.Data, result.Stat; result.Err != nil {
				of.err = ErrNotFound
			}
			of.of = of.job.parse()
		})
		if whole == of.name {
			of.slots = []records{{slot: whole}}
			r.readTick(of, &of.slots[0])
		}
	}
}

func (r *round) readTick(of *reading, slot *records) {
	r.want(of, zkconn.Read{Path: r.tree.Tick(slot.slot)}, func(result zkconn.ReadResult) { slot.setTick(r.tree, result) })
	r.want(of, zkconn.Read{Path: r.tree.Alarm(slot.slot)}, func(result zkconn.ReadResult) {
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
	r.tickStat = result.Stat
	if r.tick, r.tickErr = zkrec.ParseTick(result.Data, written); r.tickErr != nil {
		r.tickErr = &zkrec.UnreadableError{Path: tree.Tick(r.slot), Err: r.tickErr}
	}
}

// readParts reads at which instances jobs run that run on every one, and finds out which slots the others have.
func (r *round) readParts() {
	r.each(func(of *reading) {
		if !of.of.isEverywhere() {
			of.setSlots(nil)
			return
		}
		r.want(of, zkconn.Read{Path: r.tree.Everywhere(of.job.slot), Children: true}, func(result zkconn.ReadResult) { of.setSlots(result.Names) })
	})
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
func (r *round) readTicks(of *reading) {
	if of.slots[0].slot != of.job.slot {
		for i := range of.slots {
			r.readTick(of, &of.slots[i])
		}
	}
	if first, waits := of.of.spec.ActiveLayout().WaitsFor(of.slots[len(of.slots)-1].slot); waits {
		r.want(of, zkconn.Read{Path: r.tree.Tick(first)}, func(result zkconn.ReadResult) { of.setGate(r.tree, first, result) })
	}
}

// setGate takes in up to which tick shards wait for the first one, as its record says.
func (r *reading) setGate(tree zkrec.Tree, first string, result zkconn.ReadResult) {
	record := records{slot: first}
	if record.setTick(tree, result); record.tickErr != nil {
		return
	}
	gate := ticks.GateOf(record.tick, zkrec.History{}, time.Time{})
	for i := range r.slots {
		r.slots[i].gate = gate // the first shard makes no use of it
	}
}

// readRest reads what comes after the tick records.
func (r *round) readRest(of *reading) {
	for i := range of.slots {
		slot := &of.slots[i]
		r.readOwner(of, slot)
		if r.histories || slot.tick.State != "" && slot.tick.State != RunOK {
			r.readHistory(of, slot)
		}
		if slot.tick.Watermark == 0 && slot.tickErr == nil {
			slot.tick.Watermark = of.of.spec.ActiveLayout().Since // where the ticks of a new shard begin
		}
	}
	r.want(of, zkconn.Read{Path: r.tree.Register(of.job.slot), Children: true}, func(result zkconn.ReadResult) {
		of.job.registered = slices.Sorted(slices.Values(result.Names))
		for i := range of.slots {
			of.slots[i].registered = of.job.registered
		}
	})
	if !of.isDivided() {
		return
	}
	r.want(of, zkconn.Read{Path: r.tree.Shards(of.name)}, func(result zkconn.ReadResult) {
		if of.complete, of.completeErr = zkrec.ParseComplete(result.Data); of.completeErr != nil {
			of.completeErr = &zkrec.UnreadableError{Path: r.tree.Shards(of.name), Err: of.completeErr}
		}
	})
	r.want(of, zkconn.Read{Path: r.tree.Job(of.name)}, func(result zkconn.ReadResult) {
		if result.Stat.Mzxid != of.job.stat.Mzxid {
			r.changed = append(r.changed, of)
		}
	})
}

func (r *round) readOwner(of *reading, slot *records) {
	r.want(of, zkconn.Read{Path: r.tree.Alive(slot.slot)}, func(result zkconn.ReadResult) {
		slot.owner, _ = zkrec.ParseOwner(result.Data) // an unreadable record names no owner
		slot.ownerStat = result.Stat
	})
}

func (r *round) readHistory(of *reading, slot *records) {
	results := make([]zkconn.ReadResult, zkrec.HistoryPages)
	for i, path := range r.tree.HistoryPages(slot.slot) {
		r.want(of, zkconn.Read{Path: path}, func(result zkconn.ReadResult) {
			if results[i] = result; i == len(results)-1 && results[0].Err == nil {
				slot.history, _, slot.historyErr = historyOf(results)
			}
		})
	}
}

// readRuns reads again the tick records with an open run that does not belong to the owner. The two are two nodes, and the run may have
// ended between the readings: it counts only if its record has not changed.
func (r *round) readRuns(ctx context.Context) error {
	for {
		r.each(func(of *reading) {
			for i := range of.slots {
				if slot := &of.slots[i]; slot.tick.Open() && slot.tick.Token != slot.ownerStat.Mzxid && !slot.settled {
					r.readAgain(of, slot)
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

// readAgain reads a tick record again, and the owner after it.
func (r *round) readAgain(of *reading, slot *records) {
	r.want(of, zkconn.Read{Path: r.tree.Tick(slot.slot)}, func(result zkconn.ReadResult) {
		slot.settled = result.Stat.Version == slot.tickStat.Version
		slot.setTick(r.tree, result)
	})
	r.readOwner(of, slot)
}

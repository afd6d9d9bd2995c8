package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Overdue looks for ticks that nobody has accounted for in time.
type Overdue struct {
	loop     *session.Loop
	member   *member.Member
	catalog  *catalog.Catalog
	reporter Reporter

	jobs map[*catalog.Job]*watch
}

// watchers is how many live instances look for the overdue ticks of a job: those that come first by
// a hash.
const watchers = 2

// watch is a job as the switch knows it.
type watch struct {
	group   *member.Able  // for which mine was decided
	changes int           // likewise
	mine    bool          // this instance is one of the job's watchers
	since   time.Duration // Mono: since when it is, or is not
	attempt int           // to join, in which the slots are looked at
	dated   bool          // the times of the spec were corrected, or need not be
	slots   []*watched    // by shard; of one layout, for a change makes another watch
	// parts are the slots of a job that runs on every instance, one for each instance that takes jobs.
	parts map[string]*watched
}

// watched is a slot whose ticks are watched.
type watched struct {
	lookAt time.Time // when to look again, in the group's time
	busy   bool      // it is being looked at, or an alarm is being raised
	raised int64     // the tick that was reported
	lost   *lost     // of a job that always runs; nil unless no owner runs its open run
	// trying is the alarm that this instance tries to write; no other try has the same time.
	trying *zkrec.Alarm
}

// lost is an open run that no owner runs.
type lost struct {
	run string
	at  time.Time // when that was seen
}

// NewOverdue returns a dead man's switch.
func NewOverdue(loop *session.Loop, m *member.Member, c *catalog.Catalog, r Reporter) *Overdue {
	return &Overdue{loop: loop, member: m, catalog: c, reporter: r, jobs: make(map[*catalog.Job]*watch)}
}

// Changed forgets when to look at a job's slots: its spec is another one, or it is gone.
func (o *Overdue) Changed(job *catalog.Job) { delete(o.jobs, job) }

// Sync looks at each slot of which a tick may be overdue. Between two looks no tick can become
// overdue, so looks are rare.
func (o *Overdue) Sync() {
	if now, known := o.member.Clock.Certain(); known {
		o.catalog.Agenda.Due(func(job *catalog.Job) { o.watch(job, now) })
	}
}

func (o *Overdue) watch(job *catalog.Job, now time.Time) {
	agenda, next := o.catalog.Agenda, o.loop.Now()
	known := o.jobs[job]
	if known == nil {
		known = &watch{}
		o.jobs[job] = known
	}
	// Each change of the group makes another.
	if group, changes := o.member.Able(), o.member.Clock.Changes(); group == nil || group != known.group || changes != known.changes {
		known.group, known.changes = group, changes
		if mine := o.member.Clock.Watches(job.Name, job.Schema, watchers); mine != known.mine {
			known.mine, known.since = mine, o.loop.Now()
		}
	}
	if !known.mine {
		return
	}
	if attempt := o.loop.Attempt(); attempt != known.attempt {
		known.attempt = attempt
		known.lookBy(now.Add(job.Spec.Job.WithDefaults().AlarmAfter)) // the owners account for what was lost first
	}
	if !job.Valid() {
		o.watchInvalid(job, known)
		return
	}
	if job.Spec.Job.Everywhere { // which instances take jobs may change at any time
		agenda.By(job, next)
	}
	if !known.dated && o.isDatedAhead(job) {
		o.date(job, known)
		agenda.By(job, next)
		return
	}
	slots := job.Slots
	if job.Spec.Job.Everywhere {
		slots = o.parts(job, known, now)
	}
	for _, slot := range slots {
		w := known.slot(slot)
		if !w.busy && !now.Before(w.lookAt) {
			o.look(job, slot, w, now)
		}
		if w.busy {
			agenda.By(job, next)
		} else {
			agenda.ByWall(job, w.lookAt, now)
		}
	}
}

// parts lists the slots, of a job that runs on every instance, of those that take jobs now. State
// of others is forgotten: when they are back, ticks that came meanwhile are not theirs.
func (o *Overdue) parts(job *catalog.Job, known *watch, now time.Time) (slots []string) {
	first := now.Add(job.Spec.Job.WithDefaults().AlarmAfter) // those that were away account for that first
	parts := make(map[string]*watched, len(known.parts))
	for _, sid := range job.Able() {
		if !o.member.Cleanup.Open(sid) {
			continue
		}
		slot := zkrec.InstanceSlot(job.Name, sid)
		if parts[slot] = known.parts[slot]; parts[slot] == nil {
			parts[slot] = &watched{lookAt: first}
		}
		slots = append(slots, slot)
	}
	known.parts = parts
	return slots
}

// lookBy has each slot be looked at by then: what accounted for its ticks, and its alarm, may have
// been lost with the connection.
func (w *watch) lookBy(then time.Time) {
	for _, slot := range slices.AppendSeq(slices.Clone(w.slots), maps.Values(w.parts)) {
		if slot.raised = 0; then.Before(slot.lookAt) {
			slot.lookAt = then
		}
	}
}

// slot returns the state of a slot, which is empty at first.
func (w *watch) slot(slot string) *watched {
	if _, _, part := zkrec.SplitInstance(slot); part {
		return w.parts[slot]
	}
	_, shard, _ := zkrec.SplitSlot(slot)
	for len(w.slots) <= shard {
		w.slots = append(w.slots, &watched{})
	}
	return w.slots[shard]
}

// watchInvalid raises an alarm for a job whose spec is no record, or of a newer version that no
// live instance has: none of its ticks is run, and nobody can tell which. It is reported as the
// time at which the spec was written.
func (o *Overdue) watchInvalid(j *catalog.Job, known *watch) {
	since, is := j.Unreadable()
	w := known.slot(j.Name)
	if !is || w.raised == j.Written {
		return
	}
	if j.Schema > zkrec.SpecSchema {
		since = max(since, known.since) // an instance that reads it may have left just now
	}
	due := since + job.DefaultAlarmAfter
	if !w.busy && o.loop.Now() > due {
		o.lookAt(j, j.Name, w).raise(time.UnixMilli(j.Written))
	}
	o.catalog.Agenda.By(j, due)
}

// look reads whether a tick of a slot is overdue. Many slots, as all are at the start, are read
// together.
func (o *Overdue) look(job *catalog.Job, slot string, w *watched, now time.Time) {
	w.busy = true
	l := o.lookAt(job, slot, w)
	l.now = now
	reads := []zkconn.Read{{Path: o.loop.Tree.Tick(slot)}}
	more, gate := job.ReadGate(o.loop.Tree, slot)
	o.loop.Read(append(reads, more...), func(results []zkconn.ReadResult) {
		l.gate = gate(results[1:])
		l.record(results)
	})
}

func (o *Overdue) lookAt(job *catalog.Job, slot string, w *watched) look {
	return look{
		Overdue: o, job: job, slot: slot, of: w, judged: job.Ticks, spec: job.Spec, created: job.Created,
		as: owner.VersionOps(o.loop.Tree, job.Name, job.Version),
	}
}

// look is one reading of a slot.
type look struct {
	*Overdue

	job     *catalog.Job
	slot    string
	of      *watched
	now     time.Time  // of the group, when the reading began
	judged  *ticks.Job // as it was when the reading began
	spec    *zkrec.Spec
	created int64       // the transaction that has created the job
	gate    *ticks.Gate // of a slot that waits for others
	as      []zkconn.Op // check that what was judged still is as it was read
}

// record handles the slot's tick record. One that is unreadable accounts for no tick after it was
// written; one of a newer schema may account for all.
func (l look) record(results []zkconn.ReadResult) {
	path, read := l.loop.Tree.Tick(l.slot), results[0]
	if read.Err == nil {
		l.as = append(l.as, zkconn.CheckOp(path, read.Stat.Version))
		begins, err := zkrec.ParseTick(read.Data, read.Stat.Mtime)
		if err == nil && read.Stat.Version == 0 && l.member.Clock.Ahead(begins.Watermark) {
			l.dateTick(begins)
			return
		}
	}
	if errors.Is(read.Err, zkconn.ErrNoNode) {
		record := zkrec.Tick{}
		if l.spec.Job.Everywhere { // its ticks begin when its instance has created it
			record.Watermark = l.now.UnixMilli()
		}
		l.judge(record, false, nil)
		return
	}
	var record zkrec.Tick
	err := read.Err
	if err == nil {
		record, err = zkrec.ParseTick(read.Data, read.Stat.Mtime)
		if err != nil && !errors.As(err, new(*zkrec.SchemaError)) {
			record = zkrec.Tick{Watermark: read.Stat.Mtime.UnixMilli()}
		}
	}
	if err != nil || !record.Open() {
		l.judge(record, false, session.ReadError(path, err))
		return
	}
	tree := l.loop.Tree
	reads := []zkconn.Read{{Path: tree.Alive(l.slot)}, {Path: tree.Instance(record.SID)}}
	l.loop.Read(reads, func(results []zkconn.ReadResult) { l.owner(record, results[0], results[1]) })
}

// owner handles the records of the owner and its instance: whether the run is in progress at a live
// owner.
func (l look) owner(record zkrec.Tick, alive, instance zkconn.ReadResult) {
	switch {
	case alive.Err != nil || alive.Stat.Mzxid != record.Token:
		l.judge(record, false, alive.Err)
	case errors.Is(instance.Err, zkconn.ErrNoNode):
		l.judge(record, false, nil)
	case errors.Is(instance.Err, zkconn.ErrDenied):
		l.judge(record, true, nil) // an instance that may not be read counts as alive
	default:
		l.judge(record, instance.Stat.Ephemeral(), instance.Err)
	}
}

func (l look) judge(record zkrec.Tick, running bool, err error) {
	w := l.of
	w.busy = false
	l.catalog.Report(l.slot, err, l.loop.Tree.Tick(l.slot))
	spoilt := errors.As(err, new(*zkrec.UnreadableError)) && record != (zkrec.Tick{})
	if err != nil && !spoilt {
		l.loop.Log.Debug("tick not read: overdue ticks are not noticed", "job", l.slot, "err", err)
		return
	}
	if known := l.jobs[l.job]; known == nil || known.slot(l.slot) != w {
		return // the spec has changed
	}
	tick, lookAgain := ticks.Overdue(l.judged.Of(l.slot, l.gate), record, running, l.now)
	if l.judged.Schedule.Always() {
		tick = w.abandoned(record, running, tick, l.now, l.judged.Policy.WithDefaults().AlarmAfter)
	}
	w.lookAt = lookAgain
	if lookAgain.IsZero() {
		w.lookAt = l.now.Add(idleLook)
	}
	if !tick.IsZero() && tick.UnixMilli() != w.raised {
		l.raise(tick)
	}
}

// abandoned is the tick to be reported of a job that always runs: that after an open run which
// nobody has run for alarmAfter, or else the one that is overdue.
func (w *watched) abandoned(record zkrec.Tick, running bool, overdue, now time.Time, alarmAfter time.Duration) time.Time {
	switch {
	case !record.Open() || running || alarmAfter < 0:
		w.lost = nil
	case w.lost == nil || w.lost.run != record.RunID:
		w.lost = &lost{record.RunID, now}
	case now.Sub(w.lost.at) >= alarmAfter:
		return time.UnixMilli(record.Watermark + 1)
	}
	return overdue
}

// idleLook is how often a slot is looked at that has no tick left.
const idleLook = time.Hour

// raise reports an overdue tick, unless another instance has, or the judged records have changed:
// then the next sync looks again.
func (l look) raise(tick time.Time) {
	w := l.of
	if w.trying == nil || w.trying.Tick != tick.UnixMilli() {
		w.trying = &zkrec.Alarm{Tick: tick.UnixMilli(), SID: l.member.ID(), At: l.loop.Clock.Wall()}
	}
	alarm := *w.trying
	w.busy = true
	l.loop.Async("raise alarm", func(ctx context.Context) func() {
		first, err := l.writeAlarm(ctx, alarm)
		return func() {
			w.busy = false
			if err != nil {
				l.loop.Log.Debug("alarm not raised", "job", l.slot, "err", err)
				w.lookAt = time.Time{} // the next sync tries again
				return
			}
			w.raised, w.trying = alarm.Tick, nil
			if first {
				l.reporter.Overdue(l.slot, l.spec, tick)
			}
		}
	})
}

// writeAlarm writes an alarm unless that tick's, or a later one's, has been written, and reports
// whether alarm is the one on record: an earlier try whose answer was lost may have written it.
func (l look) writeAlarm(ctx context.Context, alarm zkrec.Alarm) (first bool, err error) {
	path := l.loop.Tree.Alarm(l.slot)
	data, stat, err := l.loop.Conn.Get(ctx, path)
	op := zkconn.CreateOp(path, alarm.Encode())
	switch {
	case errors.Is(err, zkconn.ErrNoNode):
	case err != nil:
		return false, err
	default:
		old, parseErr := zkrec.ParseAlarm(data)
		if parseErr == nil && old.Tick >= alarm.Tick {
			return old.Tick == alarm.Tick && old.SID == alarm.SID && old.At.Equal(alarm.At), nil
		}
		op = zkconn.SetOp(path, alarm.Over(old).Encode(), stat.Version)
	}
	_, err = l.loop.Conn.MultiOn(ctx, l.loop.Tree.Job(l.job.Name), l.created, append(l.as, op)...)
	return err == nil, err
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// watchedJob is a job as it was reported. It is not read yet if its czxid is 0.
type watchedJob struct {
	czxid, mzxid int64
	version      int32
	canceled     bool
	refused      bool // its record may not be read, which was reported
	children     int  // of its node, while it lacks some
	fresh        bool // it was submitted after the watch began, or after its cursor
	slots        map[string]*watchedSlot
	notify       map[string][]job.NotifyKind // of the last record that could be read
	watchedTrouble
}

// watchedSlot is a job without shards, or a shard, as it was reported.
type watchedSlot struct {
	fresh   bool // everything of it is to be reported
	lacking bool // it has no owner record or tick record yet
	owner   watchedOwner
	ticks   watchedTicks
}

type watchedOwner struct {
	sid     string
	mzxid   int64
	version int32
}

// slotRead is what was read of a slot before its history.
type slotRead struct {
	name string
	slot *watchedSlot
	tick zkrec.Tick
	stat zkconn.Stat
	past bool // what the records say may have been reported before the cursor
	old  bool // it was, or it was before the watch
}

// readJobs reads what is to be read of some jobs. What reads them in the order in which they depend on each other: a history
// is no older than the tick record, so that what that says of a former run is in there.
func (w *watcher) readJobs(ctx context.Context, names []string, jobs map[string]*look) error {
	if err := w.readSpecs(ctx, names, jobs); err != nil {
		return err
	}
	var slots []string
	var reads []zkconn.Read
	for _, name := range names {
		for slot := range jobs[name].slots {
			if job := w.jobs[name]; job == nil || job.czxid == 0 || job.slots[slot] == nil {
				continue
			}
			slots = append(slots, slot)
			reads = append(reads, zkconn.Read{Path: w.c.tree.Alive(slot), Watch: true}, zkconn.Read{Path: w.c.tree.Tick(slot), Watch: true})
		}
	}
	if w.histories != nil {
		if err := w.readWhole(ctx, slots); err != nil {
			return err
		}
		return w.awaitNodes(ctx, names)
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	var past []slotRead
	for i, name := range slots {
		slot := w.jobs[zkrec.JobOfSlot(name)].slots[name]
		alive, tick := results[2*i], results[2*i+1]
		slot.lacking = errors.Is(alive.Err, zkconn.ErrNoNode) || errors.Is(tick.Err, zkconn.ErrNoNode)
		w.readOwner(name, slot, alive)
		if read, ok := w.readTick(name, slot, tick); ok {
			past = append(past, read)
		}
		slot.fresh = slot.fresh || slot.lacking // what comes is new
	}
	if err := w.readHistories(ctx, past); err != nil {
		return err
	}
	return w.awaitNodes(ctx, names)
}

// readSpecs reads the records of jobs and the lists of their shards. Slots that are new are to be read, too.
func (w *watcher) readSpecs(ctx context.Context, names []string, jobs map[string]*look) error {
	var reads []zkconn.Read
	var read []string
	for _, name := range names {
		if jobs[name].spec {
			read = append(read, name)
			reads = append(reads, zkconn.Read{Path: w.c.tree.Job(name), Watch: true}, zkconn.Read{Path: w.c.tree.Shards(name), Children: true, Watch: true},
				zkconn.Read{Path: w.c.tree.Everywhere(name), Children: true, Watch: true})
		}
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for i, name := range read {
		spec, shards, places := results[3*i], results[3*i+1], results[3*i+2]
		job := w.jobs[name]
		if spec.Err != nil {
			if !errors.Is(spec.Err, zkconn.ErrNoNode) && !job.refused { // a missing one will be missing in the list
				job.refused = true
				w.gap(name, w.seen, job.mzxid, spec.Err)
			}
			continue
		}
		w.readSpec(name, job, spec)
		there := make(map[string]bool)
		if parsed, err := zkrec.ParseSpec(name, spec.Data); err != nil || !parsed.Job.Everywhere { // that is a slot at each instance only
			there[name] = true
		}
		for _, text := range shards.Names {
			if shard, ok := zkrec.ParseShard(text); ok {
				there[zkrec.ShardSlot(name, shard)] = true
			}
		}
		for _, sid := range places.Names {
			there[zkrec.InstanceSlot(name, sid)] = true
		}
		for slot := range job.slots {
			if !there[slot] {
				delete(job.slots, slot)
				w.left(slot)
				if w.trouble != nil {
					job.gone = append(job.gone, slot)
					w.look(job, time.Now())
				}
			}
		}
		for slot := range there {
			if job.slots[slot] == nil {
				job.slots[slot] = &watchedSlot{fresh: job.fresh || w.watching}
				w.look(job, time.Now())
			} else if !job.slots[slot].lacking {
				continue
			}
			jobs[name].slots[slot] = true
		}
	}
	return nil
}

// gap reports that a record of a job cannot be read.
func (w *watcher) gap(slot string, zxid, after int64, err error) {
	w.tell(Event{Kind: EventGap, Zxid: zxid, Job: slot, Gap: &Gap{What: GapRecord, After: after, Error: err.Error()}})
}

func (w *watcher) readSpec(name string, job *watchedJob, r zkconn.ReadResult) {
	w.saw(r.Stat)
	was := *job
	job.czxid, job.mzxid, job.version, job.refused = r.Stat.Czxid, r.Stat.Mzxid, r.Stat.Version, false
	if was.mzxid == job.mzxid && was.czxid == job.czxid {
		return
	}
	spec, err := zkrec.ParseSpec(name, r.Data)
	job.canceled = err == nil && spec.Canceled
	ev := Event{Zxid: job.mzxid, At: inUTC(r.Stat.Mtime), Job: name, Version: job.version}
	if err == nil {
		ev.Paused, job.notify = spec.WrittenAt(r.Stat.Mtime).Paused.Covers(w.c.clock.now().now), spec.Job.Notify
		job.hungAfter = max(0, cmp.Or(spec.Job.HungAfter, ticks.HungAtLeast))
	}
	ev.Notify = job.notify
	if was.czxid != job.czxid {
		if was.czxid != 0 && !was.canceled {
			w.tell(Event{Kind: EventJobCanceled, Zxid: job.czxid, Job: name})
		}
		w.jobList.created(job.czxid)
		job.slots, job.fresh = make(map[string]*watchedSlot), w.watching || w.since > 0 && job.czxid > w.since
		if job.fresh {
			ev.Kind, ev.Zxid, ev.At, ev.Unseen = EventJobSubmitted, job.czxid, inUTC(r.Stat.Ctime), int(job.version)
		}
	} else {
		ev.Kind, ev.Unseen = EventJobChanged, unseen(was.version, job.version)
	}
	if ev.Kind == "" && w.since > 0 && job.mzxid > w.since {
		ev.Kind = EventJobChanged
	}
	switch {
	case ev.Kind == "":
	case job.canceled && (was.canceled || ev.Kind == EventJobSubmitted): // it goes, or came and went
	case job.canceled:
		w.tell(Event{Kind: EventJobCanceled, Zxid: job.mzxid, At: ev.At, Job: name})
	default:
		w.tell(ev)
	}
	if err != nil {
		w.gap(name, job.mzxid, was.mzxid, err)
	}
}

// unseen counts the writes between two versions of a record.
func unseen(was, now int32) int { return max(0, int(now-was)-1) }

func (w *watcher) readOwner(name string, slot *watchedSlot, r zkconn.ReadResult) {
	if r.Err != nil {
		return // a missing one is created; one that may not be read is reported with the tick record
	}
	w.saw(r.Stat)
	was := slot.owner
	record, _ := zkrec.ParseOwner(r.Data) // an unreadable one names no instance
	slot.owner = watchedOwner{record.SID, r.Stat.Mzxid, r.Stat.Version}
	if was.mzxid == r.Stat.Mzxid || was.mzxid == 0 && !slot.fresh && (w.since == 0 || r.Stat.Mzxid <= w.since) {
		return
	}
	ev := Event{Zxid: r.Stat.Mzxid, At: inUTC(r.Stat.Mtime), Job: name, Previous: was.sid, Unseen: unseen(was.version, r.Stat.Version)}
	if was.mzxid == 0 && !slot.fresh {
		ev.Unseen = 0 // since when is not known
	}
	if record.SID != "" {
		ev.Kind, ev.Owner = EventJobOwned, &Owner{InstanceID: record.SID, Token: r.Stat.Mzxid, Since: inUTC(r.Stat.Mtime)}
		w.tell(ev)
	} else if was.sid != "" || ev.Unseen > 0 || was.mzxid == 0 && !slot.fresh {
		ev.Kind = EventJobUnowned
		w.tell(ev)
	}
}

// readTick takes in a tick record. ok means that the history is to be read, too.
func (w *watcher) readTick(name string, slot *watchedSlot, r zkconn.ReadResult) (read slotRead, ok bool) {
	t := &slot.ticks
	if r.Err != nil {
		if !errors.Is(r.Err, zkconn.ErrNoNode) && !t.refused {
			t.refused = true
			w.gap(name, w.seen, t.mzxid, r.Err)
		}
		return read, false
	}
	w.saw(r.Stat)
	t.refused = false
	if r.Stat.Mzxid == t.mzxid {
		return read, false
	}
	tick, err := zkrec.ParseTick(r.Data, r.Stat.Mtime)
	if err != nil {
		if t.bad != r.Stat.Mzxid {
			t.bad = r.Stat.Mzxid
			w.gap(name, r.Stat.Mzxid, t.mzxid, fmt.Errorf("%s: %w", w.c.tree.Tick(name), err))
		}
		return read, false
	}
	past := t.mzxid == 0 && !slot.fresh
	read = slotRead{name, slot, tick, r.Stat, past, past && (w.since == 0 || r.Stat.Mzxid <= w.since)}
	emptied := tick.History == zkrec.Mark{} && !tick.Open() && r.Stat.Version > 0 // by a repair, say: the history may be further
	switch {
	case read.old && !emptied:
		t.begin(tick, tick.History)
		t.mzxid, t.czxid = r.Stat.Mzxid, r.Stat.Czxid
	case !past && tick.History == t.mark && (r.Stat.Version == 0 || tick.Open() && t.czxid == r.Stat.Czxid): // at most a run has begun
		w.tellTicks(read, zkrec.History{Mark: t.mark}, r.Stat)
	default:
		return read, true
	}
	return read, false
}

// readHistories reports what became of ticks.
func (w *watcher) readHistories(ctx context.Context, slots []slotRead) error {
	var reads []zkconn.Read
	for _, p := range slots {
		reads = append(reads, zkconn.ReadsOf(w.c.tree.HistoryPages(p.name)...)...)
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for i, p := range slots {
		t := &p.slot.ticks
		history, stat, err := historyOf(results[i*zkrec.HistoryPages : (i+1)*zkrec.HistoryPages])
		if errors.Is(err, zkconn.ErrNoNode) {
			p.slot.fresh = true // all of the next one is new; or the job goes
			continue
		}
		w.saw(stat)
		if p.isAnother(stat) {
			w.readAgain(p.name) // and the job's record, if that is another one
			continue
		}
		if err != nil {
			w.gap(p.name, p.stat.Mzxid, t.mzxid, fmt.Errorf("%s: %w", w.c.tree.History(p.name), err))
			history = zkrec.History{Mark: p.tick.History} // it continues from there
		} else if w.isTorn(p, history) {
			continue
		}
		if p.old {
			t.begin(p.tick, history.Mark)
			t.mzxid, t.czxid = p.stat.Mzxid, p.stat.Czxid
			continue
		}
		w.tellTicks(p, history, stat)
	}
	return nil
}

// isAnother reports whether a history does not belong to the tick record that was read before it, or neither does to what was reported:
// the slot was deleted and created again. It is to be read again, with the job's record, which may be another one, too.
func (p slotRead) isAnother(history zkconn.Stat) bool {
	t := &p.slot.ticks
	switch {
	case t.czxid != 0 && t.czxid != p.stat.Czxid && history.Czxid > t.mzxid:
		*t, p.slot.fresh = watchedTicks{}, true
	case history.Czxid > p.stat.Mzxid && history.Czxid != t.history: // once: somebody may have created it manually
	default:
		return false
	}
	t.history = history.Czxid
	return true
}

// isTorn reports whether a history may be of several moments, as its pages were not all read in one request, and has it read again then. It is of
// one if the tick record, which was read before, tells of no earlier write.
func (w *watcher) isTorn(p slotRead, h zkrec.History) bool {
	t := &p.slot.ticks
	if h.Mark == p.tick.History || t.torn == p.stat.Mzxid { // somebody has changed one of them manually
		return false
	}
	t.torn = p.stat.Mzxid
	w.readAgain(p.name)
	return true
}

// readAgain has the next round read a slot again. Until then not all of the past is reported.
func (w *watcher) readAgain(slot string) {
	w.again = true
	w.ears.note(w.c.tree.Tick(slot), false)
}

// tellTicks reports what became of the ticks of a slot.
func (w *watcher) tellTicks(p slotRead, history zkrec.History, stat zkconn.Stat) {
	t := &p.slot.ticks
	after := t.mzxid
	if p.past {
		after = w.since
	}
	events, last, whole := t.follow(p.tick, history)
	t.mzxid, t.czxid = p.stat.Mzxid, p.stat.Czxid
	if !whole {
		w.tell(Event{Kind: EventGap, Zxid: stat.Mzxid, Job: p.name, Gap: &Gap{What: GapRuns, After: after}})
	}
	for _, ev := range events {
		ev.Zxid, ev.At = stat.Mzxid, happened(ev, history, stat)
		w.tellTick(p, ev)
	}
	if p.stat.Mzxid > stat.Mzxid {
		stat = p.stat
	}
	for _, ev := range last {
		ev.Zxid, ev.At = stat.Mzxid, inUTC(stat.Mtime)
		w.tellTick(p, ev)
	}
}

func (w *watcher) tellTick(p slotRead, ev Event) {
	ev.Job, ev.Created = p.name, p.stat.Czxid
	ev.Repeated = p.past && (ev.Entry.RunID == "" || ev.Entry.Token <= w.since)
	w.tell(ev)
}

// awaitNodes watches the jobs that lack nodes, which the instance that runs them creates.
func (w *watcher) awaitNodes(ctx context.Context, names []string) error {
	var reads []zkconn.Read
	var lacking []string
	for _, name := range names {
		job := w.jobs[name]
		if job == nil || job.czxid == 0 {
			continue
		}
		lacks := len(job.slots) == 1 && job.slots[name] != nil && job.slots[name].lacking // neither shards nor its own
		for slot, s := range job.slots {
			lacks = lacks || slot != name && s.lacking
		}
		if lacks {
			lacking, reads = append(lacking, name), append(reads, zkconn.Read{Path: w.c.tree.Job(name), Children: true, Watch: true})
		}
	}
	results, err := w.c.readMany(ctx, reads)
	for i, r := range results {
		if job := w.jobs[lacking[i]]; job.children != len(r.Names) {
			job.children = len(r.Names)
			w.ears.note(w.c.tree.Job(lacking[i]), false) // they may have come before they were watched
		}
	}
	return err
}

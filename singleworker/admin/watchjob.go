package admin

import (
	"context"
	"errors"
	"fmt"

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
			}
		}
		for slot := range there {
			if job.slots[slot] == nil {
				job.slots[slot] = &watchedSlot{fresh: job.fresh || w.watching}
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
	if r.Stat.Mzxid == t.mzxid && !t.amendable {
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
	read = slotRead{name, slot, tick, r.Stat}
	if first := t.mzxid == 0 && !slot.fresh; first && (w.since == 0 || r.Stat.Mzxid <= w.since) {
		if t.begin(tick) {
			return read, true
		}
		t.mzxid = r.Stat.Mzxid
		return read, false
	}
	if r.Stat.Version == 0 { // written together with the job
		t.mzxid, t.through = r.Stat.Mzxid, tick.Watermark
		return read, false
	}
	return read, true
}

// readHistories reports what became of ticks.
func (w *watcher) readHistories(ctx context.Context, past []slotRead) error {
	reads := make([]zkconn.Read, len(past))
	for i, p := range past {
		reads[i] = zkconn.Read{Path: w.c.tree.History(p.name), Watch: p.slot.ticks.amendable}
	}
	latest := w.seen
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for i, r := range results {
		p := past[i]
		t := &p.slot.ticks
		history, err := zkrec.ParseHistory(r.Data)
		switch {
		case errors.Is(r.Err, zkconn.ErrNoNode):
		case r.Err != nil:
			err = r.Err
		case t.history != 0 && t.history != r.Stat.Czxid, t.history == 0 && r.Stat.Czxid > latest:
			w.saw(r.Stat)
			w.ears.note(w.c.tree.Tick(p.name), false) // the job was submitted again; its records are read together
			continue
		default:
			w.saw(r.Stat)
			t.history = r.Stat.Czxid
		}
		if err != nil {
			w.gap(p.name, p.stat.Mzxid, t.mzxid, fmt.Errorf("%s: %w", w.c.tree.History(p.name), err))
		}
		first, was := t.mzxid == 0 && !p.slot.fresh, t.amendable
		switch {
		case first && (w.since == 0 || p.stat.Mzxid <= w.since):
			t.beginWith(history)
		default:
			w.tellTicks(p, history, r.Stat, first)
		}
		if t.mzxid = p.stat.Mzxid; t.amendable && !was { // watch it, and read what was amended before it was watched
			w.ears.note(w.c.tree.Tick(p.name), false)
		}
	}
	return nil
}

// tellTicks reports what became of the ticks of a slot. Past are those that may have been reported before the cursor.
func (w *watcher) tellTicks(p slotRead, history zkrec.History, stat zkconn.Stat, past bool) {
	t := &p.slot.ticks
	events, last, gap := t.follow(p.tick, history.Entries)
	zxid, at := stat.Mzxid, inUTC(stat.Mtime)
	if gap {
		after := t.mzxid
		if past {
			after = w.since
		}
		w.tell(Event{Kind: EventGap, Zxid: zxid, Job: p.name, Gap: &Gap{What: GapRuns, After: after}})
	}
	for i, ev := range append(events, last...) {
		if i == len(events) && p.stat.Mzxid > zxid {
			zxid, at = p.stat.Mzxid, inUTC(p.stat.Mtime)
		}
		ev.Job, ev.Zxid, ev.At = p.name, zxid, at
		ev.Repeated = past && (ev.Entry.RunID == "" || ev.Entry.Token <= w.since)
		w.tell(ev)
	}
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

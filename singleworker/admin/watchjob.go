package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// watchedJob is a job as it was reported. It is not read yet if its czxid is 0.
type watchedJob struct {
	czxid, mzxid int64
	version      int32 // of its spec
	switched     int32 // the version of its switch
	canceled     bool
	refused      bool // its record may not be read, which was reported
	children     int  // of its node, while it lacks some
	fresh        bool // it was submitted after the watch began, or after its cursor
	undeleted    zkrec.Undeleted
	slots        map[string]*watchedSlot
	notify       map[string][]job.NotifyKind // of the last record that could be read
	watchedTrouble
}

// readJobs reads what is to be read of some jobs. What reads them in the order in which they depend
// on each other: a history is no older than the tick record, so that what that says of a former run
// is in there.
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

// readSpecs reads the records of jobs and the lists of their shards. Slots that are new are to be
// read, too.
func (w *watcher) readSpecs(ctx context.Context, names []string, jobs map[string]*look) error {
	var reads []zkconn.Read
	var read []string
	for _, name := range names {
		if jobs[name].spec {
			read = append(read, name)
			reads = append(reads, zkconn.Read{Path: w.c.tree.Job(name), Watch: true}, zkconn.Read{Path: w.c.tree.Register(name), Watch: true},
				zkconn.Read{Path: w.c.tree.Shards(name), Children: true, Watch: true},
				zkconn.Read{Path: w.c.tree.Everywhere(name), Children: true, Watch: true})
		}
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for i, name := range read {
		spec, register, shards, places := results[4*i], results[4*i+1], results[4*i+2], results[4*i+3]
		job := w.jobs[name]
		if spec.Err != nil {
			if !errors.Is(spec.Err, zkconn.ErrNoNode) && !job.refused { // a missing one will be missing in the list
				job.refused = true
				w.gap(name, w.seen, job.mzxid, spec.Err)
			}
			continue
		}
		w.readSpec(name, job, spec, nodeOf(w.c.tree.Register(name), register))
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
				job.slots[slot] = job.newSlot(slot == name, w.watching)
				w.look(job, time.Now())
			} else if !job.slots[slot].lacking {
				continue
			}
			jobs[name].slots[slot] = true
		}
	}
	return nil
}

// newSlot begins with a slot that was not known. Shards begin without the past of an undeleted job.
func (j *watchedJob) newSlot(whole, watching bool) *watchedSlot {
	slot := &watchedSlot{fresh: j.fresh || watching}
	if whole {
		slot.ticks.mark, slot.ticks.open = j.undeleted.History, j.undeleted.Run
	}
	return slot
}

// gap reports that a record of a job cannot be read.
func (w *watcher) gap(slot string, zxid, after int64, err error) {
	w.tell(Event{Kind: EventGap, Zxid: zxid, Job: slot, Gap: &Gap{What: GapRecord, After: after, Error: err.Error()}})
}

// readSpec takes in the spec and the switch of a job, and tells of the later change.
func (w *watcher) readSpec(name string, job *watchedJob, r zkconn.ReadResult, register node) {
	w.saw(r.Stat)
	w.saw(register.stat)
	was, last := *job, r.Stat
	if register.stat.Mzxid > last.Mzxid {
		last = register.stat
	}
	job.czxid, job.mzxid, job.version, job.switched, job.refused = r.Stat.Czxid, last.Mzxid, r.Stat.Version, register.stat.Version, false
	if was.mzxid == job.mzxid && was.czxid == job.czxid {
		return
	}
	spec, err := zkrec.ParseSpec(name, r.Data)
	job.canceled = err == nil && spec.Canceled
	ev := Event{Zxid: job.mzxid, At: zkrec.UTC(last.Mtime), Job: name, Version: job.version}
	if err == nil {
		turned, _ := register.turned() // the job is in trouble if it cannot be read
		ev.Paused, job.notify = turned.Paused.Covers(w.c.clock.now().now), spec.Job.Notify
		job.hungAfter = max(0, cmp.Or(spec.Job.HungAfter, ticks.HungAtLeast))
		if spec.Undeleted != nil {
			job.undeleted = *spec.Undeleted
		}
	}
	ev.Notify = job.notify
	if was.czxid != job.czxid {
		if was.czxid != 0 && !was.canceled {
			w.tell(Event{Kind: EventJobCanceled, Zxid: job.czxid, Job: name})
		}
		w.jobList.created(job.czxid)
		job.slots, job.fresh = make(map[string]*watchedSlot), w.watching || w.since > 0 && job.czxid > w.since
		if job.fresh {
			ev.Kind, ev.Zxid, ev.At, ev.Unseen = EventJobSubmitted, job.czxid, zkrec.UTC(r.Stat.Ctime), int(job.version+job.switched)
		}
	} else {
		ev.Kind, ev.Unseen = EventJobChanged, unseen(was.version+was.switched, job.version+job.switched)
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

// unseen counts the writes between two versions of a record, or the sums of those of two.
func unseen(was, now int32) int { return max(0, int(now-was)-1) }

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

package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
)

// A childList counts the children that were created below a node, to tell how many came and went
// unseen.
type childList struct {
	found     bool
	czxid     int64 // of the node; 0: it was never there
	pzxid     int64 // of the first reading
	creations int   // according to the node
	unread    int   // creations that no child that was read accounts for; negative: the list is not read yet
	owed      bool  // some were unread a round ago
	after     int64 // what was known of the list, for a gap
}

// listed takes in a reading of the list. fresh means that the node was created after the watch
// began, if its czxid is new. It reports whether children may have gone since the cursor, or with a
// former node.
func (l *childList) listed(stat zkconn.Stat, since int64, fresh bool) (gone bool) {
	creations := (int(stat.Cversion) + stat.NumChildren) / 2 // it counts deletions, too
	switch {
	case l.czxid == stat.Czxid:
		l.unread += max(0, creations-l.creations) // fewer after a restore
	case fresh:
		gone = l.czxid != 0
		l.pzxid, l.unread = 0, creations
	default:
		gone = since > 0 && stat.Pzxid > since
		l.pzxid, l.after = stat.Pzxid, since
	}
	l.found, l.czxid, l.creations = true, stat.Czxid, creations
	return gone
}

// created takes in that a child was read for the first time.
func (l *childList) created(czxid int64) {
	if czxid > l.pzxid {
		l.unread--
	}
}

// settle returns how many children came and went unseen. Those of which a notification is on its
// way are given another round.
func (l *childList) settle(quiet bool) (unseen int) {
	if l.unread > 0 && (quiet || l.owed) {
		unseen, l.unread = l.unread, 0
	}
	l.owed = l.unread > 0
	return unseen
}

// look is what of a job is to be read.
type look struct {
	spec  bool
	slots map[string]bool // their owner records and tick records
}

// sync has the server catch up. A cursor, or a position, from before a restore means nothing
// after it: there is no telling which of the transactions since then are lost.
func (w *watcher) sync(ctx context.Context) error {
	if err := w.c.conn.Sync(ctx, w.c.tree.Root()); err != nil {
		return err
	}
	if known, last := max(w.since, w.seen), w.c.conn.Zxid(); known > last || known > 0 && zxids.Restored(known, last) {
		w.tell(Event{Kind: EventGap, Zxid: last, Gap: &Gap{What: GapLost, After: known}})
		w.since, w.cursor, w.seen = 0, last, last
	}
	return nil
}

// read reads what is at some paths, or everything.
func (w *watcher) read(ctx context.Context, paths map[string]struct{}, all bool) error {
	tree := w.c.tree
	jobs := make(map[string]*look)
	if _, changed := paths[tree.Root()]; all || changed {
		if err := w.readList(ctx, jobs); err != nil {
			return err
		}
	}
	if w.only == nil && w.histories == nil {
		if err := w.readInstances(ctx, paths, all); err != nil {
			return err
		}
	}
	if all && !w.watching && w.since == 0 {
		w.cursor = max(w.cursor, w.seen) // what is read from now on is as of then, or later
	}
	for path := range paths {
		w.at(jobs, path)
	}
	if all {
		for name := range w.jobs {
			w.lookAt(jobs, name).spec = true
			for slot := range w.jobs[name].slots {
				w.lookAt(jobs, name).slots[slot] = true
			}
			w.look(w.jobs[name], time.Now())
		}
	}
	names := slices.Sorted(maps.Keys(jobs))
	if err := w.inParts(names, func(some []string) error { return w.readJobs(ctx, some, jobs) }); err != nil {
		return err
	}
	quiet := w.ears.quiet()
	if n := w.jobList.settle(quiet); n > 0 {
		w.tell(Event{Kind: EventGap, Zxid: w.seen, Gap: &Gap{What: GapJobs, After: w.jobList.after, Count: n}})
	}
	if n := w.nodeList.settle(quiet); n > 0 {
		w.tell(Event{Kind: EventGap, Zxid: w.seen, Gap: &Gap{What: GapInstances, After: w.nodeList.after, Count: n}})
	}
	if quiet {
		w.jobList.after, w.nodeList.after = w.seen, w.seen
	}
	return nil
}

// inParts calls read for some names after the others, and reports between them. The last event of
// the round will have the new cursor.
func (w *watcher) inParts(names []string, read func(some []string) error) error {
	for ; len(names) > watchAtOnce; names = names[watchAtOnce:] {
		if err := read(names[:watchAtOnce]); err != nil {
			return err
		}
		if err := w.report(w.cursor); err != nil {
			return err
		}
	}
	return read(names)
}

// lookAt is what is to be read of a job.
func (w *watcher) lookAt(jobs map[string]*look, name string) *look {
	if jobs[name] == nil {
		jobs[name] = &look{slots: make(map[string]bool)}
	}
	return jobs[name]
}

// at has what is at a path read, if it belongs to a job.
func (w *watcher) at(jobs map[string]*look, path string) {
	slot, _ := w.c.tree.Watched(path)
	name := zkrec.JobOfSlot(slot)
	if w.jobs[name] == nil {
		return // it is gone
	}
	if path == w.c.tree.Job(name) || path == w.c.tree.Register(name) || path == w.c.tree.Shards(name) || path == w.c.tree.Everywhere(name) {
		w.lookAt(jobs, name).spec = true
		return
	}
	w.lookAt(jobs, name).slots[slot] = true
}

// saw notes the transactions of what was read.
func (w *watcher) saw(stat zkconn.Stat) {
	w.seen = max(w.seen, stat.Czxid, stat.Mzxid, stat.Pzxid)
}

// list watches and lists the children of a node. Like all watches here, this one ends with the
// connection: those that the client sets again by itself would be a data race in it, because
// requests are sent as soon as it is connected.
func (w *watcher) list(ctx context.Context, path string) ([]string, zkconn.Stat, error) {
	set, err := w.c.readMany(ctx, []zkconn.Read{{Path: path, Children: true, Watch: true}})
	if err == nil {
		err = set[0].Err
	}
	if err != nil {
		return nil, zkconn.Stat{}, err
	}
	return w.c.conn.Children(ctx, path)
}

// readList reads the list of jobs.
func (w *watcher) readList(ctx context.Context, jobs map[string]*look) error {
	names, stat, err := w.list(ctx, w.c.tree.Root())
	if errors.Is(err, zkconn.ErrNoNode) {
		names, err, w.jobList.found = nil, nil, false
	}
	if err != nil {
		return err
	}
	w.saw(stat)
	counted := w.watching || w.jobList.czxid != 0
	if stat.Czxid != 0 && w.jobList.listed(stat, w.since, counted) {
		w.tell(Event{Kind: EventGap, Zxid: stat.Pzxid, Gap: &Gap{What: GapJobs, After: w.jobList.after}})
	}
	there := make(map[string]bool)
	for _, name := range names {
		if there[name] = true; !zkrec.IsJob(name) || w.only != nil && !w.only[name] {
			if counted && !w.others[name] {
				w.jobList.unread--
			}
			w.others[name] = true
			continue
		}
		if w.jobs[name] == nil {
			w.jobs[name] = &watchedJob{slots: make(map[string]*watchedSlot)}
		}
		if w.jobs[name].czxid == 0 {
			w.lookAt(jobs, name).spec = true
		}
	}
	maps.DeleteFunc(w.others, func(name string, _ bool) bool { return !there[name] })
	for name, job := range w.jobs {
		if there[name] {
			continue
		}
		delete(w.jobs, name)
		w.leftJob(job)
		if job.czxid != 0 && !job.canceled {
			w.tell(Event{Kind: EventJobCanceled, Zxid: max(stat.Pzxid, job.mzxid), Job: name})
		}
	}
	return nil
}

// watchedInstance is an instance as it was reported.
type watchedInstance struct {
	czxid, mzxid       int64
	incarnation, state string
}

// readInstances reads the list of the instances and the records that have changed.
func (w *watcher) readInstances(ctx context.Context, paths map[string]struct{}, all bool) error {
	tree := w.c.tree
	_, changed := paths[tree.Instances()]
	_, made := paths[tree.Root()]
	if changed || all || made && !w.nodeList.found {
		if err := w.listInstances(ctx); err != nil {
			return err
		}
	}
	var ids []string
	var reads []zkconn.Read
	for id, i := range w.instances {
		if _, changed := paths[tree.Instance(id)]; all || changed || i.czxid == 0 {
			ids, reads = append(ids, id), append(reads, zkconn.Read{Path: tree.Instance(id), Watch: true})
		}
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for k, r := range results {
		switch {
		case errors.Is(r.Err, zkconn.ErrNoNode): // the list will say so
		case r.Err != nil:
			w.unreadableInstance(ids[k], r.Err)
		default:
			w.readInstance(ids[k], r)
		}
	}
	return nil
}

func (w *watcher) listInstances(ctx context.Context) error {
	names, stat, err := w.list(ctx, w.c.tree.Instances())
	if errors.Is(err, zkconn.ErrNoNode) {
		names, err, w.nodeList.found = nil, nil, false
	}
	if err != nil {
		return err
	}
	w.saw(stat)
	if stat.Czxid != 0 && w.nodeList.listed(stat, w.since, w.watching || w.nodeList.czxid != 0) {
		w.tell(Event{Kind: EventGap, Zxid: stat.Pzxid, Gap: &Gap{What: GapInstances, After: w.nodeList.after}})
	}
	there := make(map[string]bool)
	for _, id := range names {
		there[id] = true
		if _, known := w.instances[id]; !known {
			w.instances[id] = watchedInstance{}
		}
	}
	for id, i := range w.instances {
		if there[id] {
			continue
		}
		if delete(w.instances, id); i.czxid != 0 && i.state != InstanceNone {
			w.tell(Event{Kind: EventInstanceLeft, Zxid: max(stat.Pzxid, i.mzxid), InstanceID: id, Incarnation: i.incarnation})
		}
	}
	return nil
}

// unreadableInstance says once that an instance may not be read.
func (w *watcher) unreadableInstance(id string, err error) {
	i := w.instances[id]
	if i.state != InstanceUnreadable {
		i.state = InstanceUnreadable
		w.instances[id] = i
		w.tell(Event{Kind: EventGap, Zxid: w.seen, InstanceID: id, Gap: &Gap{What: GapRecord, After: i.mzxid, Error: err.Error()}})
	}
}

func (w *watcher) readInstance(id string, r zkconn.ReadResult) {
	w.saw(r.Stat)
	record, err := zkrec.ParseInstance(r.Data)
	if err != nil {
		record.State = InstanceUnreadable
	}
	if !r.Stat.Ephemeral() { // someone created it manually
		record.State = InstanceNone
	}
	was := w.instances[id]
	now := watchedInstance{r.Stat.Czxid, r.Stat.Mzxid, record.Incarnation, record.State}
	w.instances[id] = now
	ev := Event{
		Zxid: now.mzxid, At: zkrec.UTC(r.Stat.Mtime), InstanceID: id, Incarnation: now.incarnation, State: now.state,
	}
	if now.czxid != was.czxid {
		w.nodeList.created(now.czxid)
		if was.czxid != 0 && was.state != InstanceNone {
			w.tell(Event{Kind: EventInstanceLeft, Zxid: now.czxid, InstanceID: id, Incarnation: was.incarnation})
		}
		if w.watching || w.since > 0 && now.czxid > w.since {
			ev.Kind, ev.Zxid, ev.At = EventInstanceJoined, now.czxid, zkrec.UTC(r.Stat.Ctime)
			if now.state != InstanceNone {
				w.tell(ev)
			}
			return
		}
	}
	switch {
	case now.state == InstanceNone:
	case was.czxid == now.czxid && was.state != now.state:
		ev.Kind, ev.PreviousState = EventInstanceState, was.state
		w.tell(ev)
	case !w.watching && w.since > 0 && now.mzxid > w.since:
		ev.Kind, ev.Repeated = EventInstanceState, true
		w.tell(ev)
	}
}

package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

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
	ev := Event{Zxid: r.Stat.Mzxid, At: zkrec.UTC(r.Stat.Mtime), Job: name, Previous: was.sid, Unseen: unseen(was.version, r.Stat.Version)}
	if was.mzxid == 0 && !slot.fresh {
		ev.Unseen = 0 // since when is not known
	}
	if record.SID != "" {
		ev.Kind, ev.Owner = EventJobOwned, &Owner{InstanceID: record.SID, Token: r.Stat.Mzxid, Since: zkrec.UTC(r.Stat.Mtime)}
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

// isAnother reports whether a history does not belong to the tick record that was read before it,
// or neither does to what was reported: the slot was deleted and created again. It is to be read
// again, with the job's record, which may be another one, too.
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

// isTorn reports whether a history may be of several moments, as its pages were not all read in one
// request, and has it read again then. It is of one if the tick record, which was read before,
// tells of no earlier write.
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
		ev.Zxid, ev.At = stat.Mzxid, zkrec.UTC(stat.Mtime)
		w.tellTick(p, ev)
	}
}

func (w *watcher) tellTick(p slotRead, ev Event) {
	ev.Job, ev.Created = p.name, p.stat.Czxid
	ev.Repeated = p.past && (ev.Entry.RunID == "" || ev.Entry.Token <= w.since)
	w.tell(ev)
}

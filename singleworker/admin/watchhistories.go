package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// WatchHistoriesOptions says how WatchHistories reads. The zero value is fine.
type WatchHistoriesOptions struct {
	// Since is the Cursor of a former reading, with which the first ones say whether jobs may have
	// come and gone since. Default: 0, which does not ask.
	Since int64
	// Pause is how long changes are gathered before they are read. Default 250 ms.
	Pause time.Duration
}

// HistoryReading is what a round of reading has found.
type HistoryReading struct {
	// Cursor is the number of a transaction up to which everything was read, in this reading and those
	// before.
	Cursor int64
	// Whole means that every history of the group has been read since the call began.
	Whole bool
	// Slots are the histories that have changed since they were last read; at first, all of them.
	Slots []SlotHistory
	// Gone are jobs, shards, and jobs at an instance, that were read before and are no longer there.
	Gone []string
	// UnseenJobs means that jobs were, or may have been, submitted and canceled without having been
	// read.
	UnseenJobs bool
	// Unreadable says why a record cannot be read, by the name of the job or of the shard; each reason
	// once.
	Unreadable map[string]error
}

// SlotHistory is the history of a job, of a shard, or of a job at one instance, as its record has
// it.
type SlotHistory struct {
	// Name is that of the job, of the shard, such as "report[3]", or of the job at an instance:
	// "report/app-1".
	Name string
	// Incarnation is the transaction that created the record: another one if the job was canceled and
	// submitted again.
	Incarnation int64
	// Written is when the record was last written, by ZooKeeper's clock.
	Written time.Time
	// Rev counts the writes of the history, and Number its entries, with those that are forgotten.
	// Dropped is the highest Rev of an entry that was forgotten to make room. So who has read the
	// history up to some Rev has missed nothing unless Dropped is higher, and what is new to him are
	// the entries with a higher Rev.
	Rev, Number, Dropped int64
	// Inherited is, of a job that was undeleted, which entries are of before.
	Inherited Inherited
	// Entries are what became of the last ticks, oldest first; of runs, only those that have ended.
	// The last entry grows while it is a row of ticks that were not run. An entry of a run that was
	// interrupted or lost is replaced if its result comes late. Nothing else changes but that entries
	// are added, and that the oldest go.
	Entries []history.Entry
}

// Inherited is the part of the history of a job that was undeleted that is of before. The zero
// value has nothing.
type Inherited struct {
	Incarnation int64 // of the history before
	Rev, Number int64 // its last
}

// WatchHistories yields the histories of all jobs and then, until ctx is done or the loop ends,
// those that have changed. It is for those who keep what the histories forget: see package runlog.
// The last element has the error that ended it, as with Watch. It costs ZooKeeper four watches for
// each job, one more for each shard, and a part of a bulk request for each change; after a lost
// connection all histories are read again. Histories that have not changed since they were last
// yielded are not yielded again. A consumer that is slow delays the reading, and memory does not
// grow.
func (c *Client) WatchHistories(ctx context.Context, o WatchHistoriesOptions) iter.Seq2[HistoryReading, error] {
	return func(yield func(HistoryReading, error) bool) {
		opts := WatchOptions{Since: o.Since, Pause: o.Pause}
		err := opts.check()
		if err == nil {
			w := newWatcher(c.members, opts, nil)
			w.histories = &historyWatch{yield: yield}
			err = w.run(ctx)
		}
		if !errors.Is(err, errDone) {
			yield(HistoryReading{}, err)
		}
	}
}

// historyWatch is what a watcher knows that reports whole histories.
type historyWatch struct {
	yield   func(HistoryReading, error) bool
	reading HistoryReading // that is not reported yet
	whole   bool           // what was reported last
}

// readWhole reads the histories of some slots: those of which the tick record tells that they were
// written since.
func (w *watcher) readWhole(ctx context.Context, slots []string) error {
	reads := make([]zkconn.Read, len(slots))
	for i, name := range slots {
		reads[i] = zkconn.Read{Path: w.c.tree.Tick(name), Watch: true}
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	var written []slotRead
	var pages []zkconn.Read
	for i, r := range results {
		name := slots[i]
		slot := w.jobs[zkrec.JobOfSlot(name)].slots[name]
		if slot.lacking = errors.Is(r.Err, zkconn.ErrNoNode); slot.lacking {
			continue
		}
		if read, ok := w.tickWhole(name, slot, r); ok {
			written, pages = append(written, read), append(pages, zkconn.ReadsOf(w.c.tree.HistoryPages(name)...)...)
		}
	}
	if results, err = w.c.readMany(ctx, pages); err != nil {
		return err
	}
	for i, p := range written {
		w.takeWhole(p, results[i*zkrec.HistoryPages:(i+1)*zkrec.HistoryPages])
	}
	return nil
}

// tickWhole takes in a tick record. ok is false if the history has not been written since it was
// last read.
func (w *watcher) tickWhole(name string, slot *watchedSlot, r zkconn.ReadResult) (read slotRead, ok bool) {
	t := &slot.ticks
	read = slotRead{name: name, slot: slot, stat: r.Stat}
	if r.Err != nil { // the history may be readable
		return read, true
	}
	w.saw(r.Stat)
	if r.Stat.Mzxid == t.mzxid {
		return read, false
	}
	again := t.czxid == r.Stat.Czxid
	t.mzxid, t.czxid = r.Stat.Mzxid, r.Stat.Czxid
	tick, err := zkrec.ParseTick(r.Data, r.Stat.Mtime)
	read.tick = tick
	return read, err != nil || !again || tick.History != t.mark
}

func (w *watcher) takeWhole(p slotRead, pages []zkconn.ReadResult) {
	t := &p.slot.ticks
	history, stat, err := historyOf(pages)
	switch {
	case stat.Czxid == 0:
		if !t.refused && !errors.Is(err, zkconn.ErrNoNode) {
			t.refused = true
			w.gap(p.name, w.seen, t.history, err)
		}
		return
	case err != nil:
		w.saw(stat)
		w.gap(p.name, stat.Mzxid, t.history, fmt.Errorf("%s: %w", w.c.tree.History(p.name), err))
		return
	}
	w.saw(stat)
	if t.refused = false; w.isTorn(p, history) {
		t.mzxid = 0
		return
	}
	if t.mark = history.Mark; t.history == stat.Mzxid {
		return
	}
	t.history = stat.Mzxid
	whole := SlotHistory{
		Name: p.name, Incarnation: stat.Czxid, Written: zkrec.UTC(stat.Mtime),
		Rev: history.Rev, Number: history.Number, Dropped: history.Dropped,
	}
	if job := w.jobs[p.name]; job != nil && job.czxid == stat.Czxid { // they were made together
		before := job.undeleted
		whole.Inherited = Inherited{before.Czxid, before.History.Rev, before.History.Number}
	}
	for _, e := range history.Entries {
		whole.Entries = append(whole.Entries, e.Public())
	}
	w.histories.reading.Slots = append(w.histories.reading.Slots, whole)
}

// left takes in that slots are no longer there.
func (w *watcher) left(slots ...string) {
	if w.histories != nil {
		w.histories.reading.Gone = append(w.histories.reading.Gone, slots...)
	}
}

// leftJob is left for all slots of a job.
func (w *watcher) leftJob(job *watchedJob) { w.left(slices.Sorted(maps.Keys(job.slots))...) }

// reportWhole reports what was read of the histories. Of the events, it needs those that tell
// of gaps.
func (w *watcher) reportWhole(cursor int64) error {
	reading := &w.histories.reading
	for _, ev := range w.events {
		switch {
		case ev.Kind != EventGap:
		case ev.Gap.What == GapJobs, ev.Gap.What == GapLost:
			reading.UnseenJobs = true
		case ev.Gap.What == GapRecord:
			if reading.Unreadable == nil {
				reading.Unreadable = make(map[string]error)
			}
			reading.Unreadable[ev.Job] = errors.New(ev.Gap.Error)
		}
	}
	w.events, w.cursor = nil, cursor
	reading.Cursor, reading.Whole = cursor, w.watching
	if reading.Whole == w.histories.whole && len(reading.Slots)+len(reading.Gone)+len(reading.Unreadable) == 0 && !reading.UnseenJobs {
		return nil
	}
	done := *reading
	w.histories.reading, w.histories.whole = HistoryReading{}, done.Whole
	if !w.histories.yield(done, nil) {
		return errDone
	}
	return nil
}

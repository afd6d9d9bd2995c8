package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// WatchHistoriesOptions says how WatchHistories reads. The zero value is fine.
type WatchHistoriesOptions struct {
	// Since is the Cursor of a former reading, with which the first ones say whether jobs may have come and gone since.
	// Default: 0, which does not ask.
	Since int64
	// Pause is how long changes are gathered before they are read. Default 250 ms.
	Pause time.Duration
}

// HistoryReading is what a round of reading has found.
type HistoryReading struct {
	// Cursor is the number of a transaction up to which everything was read, in this reading and those before.
	Cursor int64
	// Whole means that every history of the group has been read since the call began.
	Whole bool
	// Slots are the histories that have changed since they were last read; at first, all of them.
	Slots []SlotHistory
	// Gone are jobs, shards, and jobs at an instance, that were read before and are no longer there.
	Gone []string
	// UnseenJobs means that jobs were, or may have been, submitted and canceled without having been read.
	UnseenJobs bool
	// Unreadable says why a record cannot be read, by the name of the job or of the shard; each reason once.
	Unreadable map[string]error
}

// SlotHistory is the history of a job, of a shard, or of a job at one instance, as its record has it.
type SlotHistory struct {
	// Name is that of the job, of the shard, such as "report[3]", or of the job at an instance: "report/app-1".
	Name string
	// Incarnation is the transaction that created the record: another one if the job was canceled and submitted again.
	Incarnation int64
	// Written is when the record was last written, by ZooKeeper's clock.
	Written time.Time
	// Full means that older entries may have been forgotten to make room.
	Full bool
	// Entries are what became of the last ticks, oldest first; of runs, only those that have ended. The last entry grows
	// while it is a row of ticks that were not run. An entry of a run that was interrupted or lost is replaced if
	// its result comes late. Nothing else changes but that entries are added, and that the oldest go.
	Entries []Entry
}

// WatchHistories yields the histories of all jobs and then, until ctx is done or the loop ends, those that have changed. It is for
// those who keep what the histories forget: see package runlog. The last element has the error that ended it, as with Watch. It
// costs ZooKeeper four watches for each job, one more for each shard, and a part of a bulk request for each change; after a lost
// connection all histories are read again. Histories that have not changed since they were last yielded are not
// yielded again. A consumer that is slow delays the reading, and memory does not grow.
func (c *Client) WatchHistories(ctx context.Context, o WatchHistoriesOptions) iter.Seq2[HistoryReading, error] {
	return func(yield func(HistoryReading, error) bool) {
		opts := WatchOptions{Since: o.Since, Pause: o.Pause}
		err := opts.check()
		if err == nil {
			w := newWatcher(c, opts, nil)
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

// readWhole reads the histories of some slots.
func (w *watcher) readWhole(ctx context.Context, slots []string) error {
	reads := make([]zkconn.Read, len(slots))
	for i, name := range slots {
		reads[i] = zkconn.Read{Path: w.c.tree.History(name), Watch: true}
	}
	results, err := w.c.readMany(ctx, reads)
	if err != nil {
		return err
	}
	for i, r := range results {
		slot := w.jobs[zkrec.JobOfSlot(slots[i])].slots[slots[i]]
		if slot.lacking = errors.Is(r.Err, zkconn.ErrNoNode); !slot.lacking {
			w.takeWhole(slots[i], &slot.ticks, r)
		}
	}
	return nil
}

func (w *watcher) takeWhole(name string, t *watchedTicks, r zkconn.ReadResult) {
	if r.Err != nil {
		if !t.refused {
			t.refused = true
			w.gap(name, w.seen, t.mzxid, r.Err)
		}
		return
	}
	w.saw(r.Stat)
	t.refused = false
	if t.mzxid == r.Stat.Mzxid {
		return
	}
	t.mzxid = r.Stat.Mzxid
	history, err := zkrec.ParseHistory(r.Data)
	if err != nil {
		w.gap(name, r.Stat.Mzxid, t.mzxid, fmt.Errorf("%s: %w", w.c.tree.History(name), err))
		return
	}
	whole := SlotHistory{
		Name: name, Incarnation: r.Stat.Czxid, Written: inUTC(r.Stat.Mtime),
		Full: len(history.Entries) >= zkrec.MaxHistory || len(r.Data) > zkrec.MaxRecordBytes/2, // an entry is less than half of it
	}
	for _, e := range history.Entries {
		whole.Entries = append(whole.Entries, entryOf(e))
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

// reportWhole reports what was read of the histories. Of the events, those are of use that tell what was not read.
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

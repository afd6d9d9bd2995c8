package admin

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// watchedTicks is what was reported of the ticks of a slot: a position in its history. Entries have no numbers; runs have
// IDs, and the ticks of rows only grow.
type watchedTicks struct {
	mzxid     int64 // of the tick record
	history   int64 // the czxid of the history
	refused   bool  // the tick record may not be read, which was reported
	bad       int64 // the mzxid of the latest tick record that was reported as unreadable
	amendable bool  // the history has a run whose result may still come, so it is watched
	open      string
	through   int64 // the last tick of the rows that were reported
	rowTick   int64 // the first tick of the last of these rows, and how many ticks of it were reported
	rowCount  int
	runs      []endedRun
	anchored  bool // part of the history is known, so what follows it can be told from what is missing
}

type endedRun struct{ id, state string }

// begin takes the tick record as known. It reports whether the history is needed for that.
func (t *watchedTicks) begin(tick zkrec.Tick) (more bool) {
	*t = watchedTicks{through: tick.Watermark}
	if tick.Open() {
		t.open = tick.RunID
	} else if tick.RunID != "" {
		t.runs, t.anchored = []endedRun{{tick.RunID, tick.State}}, true
	}
	return tick.Open() || tick.State == zkrec.RunInterrupted || tick.State == zkrec.RunLost
}

// beginWith takes a history as known, which is no older than the tick record: up to the run of that.
func (t *watchedTicks) beginWith(h zkrec.History) {
	ended := slices.Clone(t.runs)
	t.runs = nil
	for _, e := range h.Entries {
		if e.RunID == "" {
			if e.Last() <= t.through {
				t.anchored, t.rowTick, t.rowCount = true, e.Tick, e.Ticks()
			}
			continue
		}
		if e.RunID == t.open {
			break
		}
		t.mark(e.Run)
		if len(ended) > 0 && e.RunID == ended[0].id {
			t.runs[len(t.runs)-1].state = ended[0].state // it may have been amended since
			break
		}
	}
	if len(t.runs) == 0 {
		t.runs = ended
	}
}

// mark notes a run as ended.
func (t *watchedTicks) mark(run zkrec.Run) {
	t.runs, t.anchored = append(t.runs, endedRun{run.RunID, run.State}), true
	t.amendable = t.amendable || run.State == zkrec.RunInterrupted || run.State == zkrec.RunLost
}

// known is the state in which a run was reported as ended, or "".
func (t *watchedTicks) known(id string) string {
	if i := slices.IndexFunc(t.runs, func(r endedRun) bool { return r.id == id }); i >= 0 {
		return t.runs[i].state
	}
	return ""
}

// reported counts the entries at the beginning of a history that were reported completely. found is false if none is known.
func (t *watchedTicks) reported(entries []zkrec.Entry) (n int, found bool) {
	for i, e := range slices.Backward(entries) {
		switch {
		case e.RunID != "" && t.known(e.RunID) != "", e.RunID == "" && e.Last() <= t.through:
			return i + 1, true
		case e.RunID == "" && e.Tick <= t.through:
			return i, true
		}
	}
	return 0, false
}

// follow returns the events that lead to a history, and from there to a tick record that is no newer. gap means that the
// history does not reach back to what was reported.
func (t *watchedTicks) follow(tick zkrec.Tick, entries []zkrec.Entry) (events, last []Event, gap bool) {
	first, found := t.reported(entries)
	gap = !found && len(entries) > 0 && (t.anchored || len(entries) >= zkrec.MaxHistory)
	before := *t
	t.runs, t.amendable = nil, false
	isRun := func(e zkrec.Entry) bool { return e.RunID != "" }
	for i, e := range entries {
		if e.RunID == "" {
			if i >= first {
				events = append(events, t.row(e))
			}
			continue
		}
		t.mark(e.Run)
		switch was := before.known(e.RunID); {
		case i < first && was != "" && was != e.State:
			later := tick.Open() && tick.RunID != e.RunID || slices.ContainsFunc(entries[i+1:], isRun)
			events = append(events, Event{Kind: EventRunEnded, Entry: entryPtr(e), Amended: true, Superseded: later})
		case i >= first:
			events = t.ended(events, e)
		}
	}
	for _, ev := range events {
		if what, at := tick.NextAttemptOf(ev.Entry.RunID); ev.Kind == EventRunEnded && !ev.Amended {
			ev.Entry.NextAttempt, ev.Entry.NextAttemptAt = what, milli(at)
		}
	}
	if t.known(t.open) != "" {
		t.open = ""
	}
	switch ended := t.known(tick.RunID) != ""; {
	case tick.RunID == "" || ended:
	case tick.Open():
		gap = gap || t.open != "" && t.open != tick.RunID
		if t.open != tick.RunID {
			last = append(last, begun(zkrec.Entry{Run: tick.Run}))
		}
		t.open = tick.RunID
	default: // an older version kept no history
		if before.known(tick.RunID) == "" {
			last = t.ended(last, zkrec.Entry{Run: tick.Run})
		}
		if t.mark(tick.Run); t.open == tick.RunID {
			t.open = ""
		}
	}
	return events, last, gap
}

// ended adds the end of a run, and its begin unless that was reported.
func (t *watchedTicks) ended(events []Event, e zkrec.Entry) []Event {
	if e.RunID != t.open {
		events = append(events, begun(e))
	}
	return append(events, Event{Kind: EventRunEnded, Entry: entryPtr(e)})
}

// begun is the begin of a run that may have ended.
func begun(e zkrec.Entry) Event {
	e.State, e.Ended, e.Error = zkrec.RunRunning, 0, ""
	return Event{Kind: EventRunBegun, Entry: entryPtr(e)}
}

// row is ticks that were not run, of which some may have been reported.
func (t *watchedTicks) row(e zkrec.Entry) Event {
	ev := Event{Kind: EventTicksSkipped, Entry: entryPtr(e), Continued: e.Tick <= t.through}
	if e.State == zkrec.TickMissed {
		ev.Kind = EventTicksMissed
	}
	if ev.Continued {
		known := t.rowTick == e.Tick && e.Ticks() < zkrec.MaxCount
		if ev.Entry.Count = 0; known {
			ev.Entry.Count = e.Ticks() - t.rowCount
		}
	}
	t.through, t.rowTick, t.rowCount, t.anchored = e.Last(), e.Tick, e.Ticks(), true
	return ev
}

func entryPtr(e zkrec.Entry) *Entry {
	entry := entryOf(e)
	return &entry
}

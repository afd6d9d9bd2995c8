package admin

import (
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// watchedTicks is what was reported of the ticks of a slot.
type watchedTicks struct {
	mzxid   int64 // of the tick record
	czxid   int64 // likewise
	history int64 // the czxid of a history that did not seem to belong to it
	refused bool  // the tick record may not be read, which was reported
	bad     int64 // the mzxid of the latest tick record that was reported as unreadable
	torn    int64 // the mzxid of the latest tick record with which a history was read again
	mark    zkrec.Mark
	last    lastEntry
	open    string // the run that was reported to have begun, and has not ended
}

// lastEntry is the last entry of a history, as it was reported.
type lastEntry struct {
	number int64 // 0: none was read
	id     string
	ticks  int
}

// entryID tells an entry from another one that has its number in a history that was restored.
func entryID(e zkrec.Entry) string {
	if e.RunID != "" {
		return e.RunID
	}
	return strconv.FormatInt(e.Tick, 10)
}

// begin takes a tick record as known, and the history up to a mark.
func (t *watchedTicks) begin(tick zkrec.Tick, mark zkrec.Mark) {
	*t = watchedTicks{mark: mark}
	if tick.Open() {
		t.open = tick.RunID
	}
}

// follow returns the events that lead to a history, and from there to a tick record that is no
// newer. whole is false if the history does not reach back to what was reported.
func (t *watchedTicks) follow(tick zkrec.Tick, h zkrec.History) (events, last []Event, whole bool) {
	news, whole := h.Since(t.mark)
	ended := false // the run of the tick record
	for _, e := range h.Entries {
		whole = whole && (e.Number != t.last.number || entryID(e) == t.last.id)
		ended = ended || e.RunID != "" && e.RunID == tick.RunID
	}
	for _, e := range news {
		again := e.Number <= t.mark.Number
		if e.RunID == "" {
			events = append(events, t.grown(e, again))
			continue
		}
		switch {
		case again:
		case e.RunID == t.open:
			t.open = ""
		default:
			events = append(events, begun(e))
		}
		events = append(events, endOf(e, again, tick, h))
	}
	t.mark = h.Mark
	if n := len(h.Entries); n > 0 {
		e := h.Entries[n-1]
		t.last = lastEntry{e.Number, entryID(e), e.Ticks()}
	}
	if t.open != "" && (t.open != tick.RunID || !tick.Open()) {
		whole, t.open = false, "" // what became of it is forgotten
	}
	if tick.Open() && !ended && t.open == "" {
		last, t.open = append(last, begun(zkrec.Entry{Run: tick.Run})), tick.RunID
	}
	return events, last, whole
}

// begun is the begin of a run that may have ended.
func begun(e zkrec.Entry) Event {
	e.State, e.Ended, e.Error = history.StateRunning, 0, ""
	return Event{Kind: EventRunBegun, Entry: entryPtr(e)}
}

// endOf is the end of a run, of which another end may have been reported. An entry that was written
// after another one had followed it has been amended.
func endOf(e zkrec.Entry, again bool, tick zkrec.Tick, h zkrec.History) Event {
	ev := Event{Kind: EventRunEnded, Entry: entryPtr(e), Amended: again}
	later := tick.Open() && tick.RunID != e.RunID
	for _, other := range h.Entries {
		if other.Number > e.Number {
			ev.Amended = ev.Amended || other.Rev < e.Rev
			later = later || other.RunID != ""
		}
	}
	if ev.Superseded = ev.Amended && later; !ev.Amended {
		what, at := tick.NextAttemptOf(e.RunID)
		ev.Entry.NextAttempt, ev.Entry.NextAttemptAt = what, zkrec.Time(at)
	}
	return ev
}

// grown is ticks that were not run, of which some may have been reported.
func (t *watchedTicks) grown(e zkrec.Entry, again bool) Event {
	ev := Event{Kind: EventTicksSkipped, Entry: entryPtr(e), Continued: again}
	if e.State == history.StateMissed {
		ev.Kind = EventTicksMissed
	}
	if again {
		known := t.last.number == e.Number && e.Ticks() < zkrec.MaxCount
		if ev.Entry.Count = 0; known {
			ev.Entry.Count = e.Ticks() - t.last.ticks
		}
	}
	return ev
}

// happened is when what an event tells of an entry was written. Of the last write of a history
// ZooKeeper has the time. Of the others only the instance that made them has, and its clock may be
// wrong.
func happened(ev Event, h zkrec.History, stat zkconn.Stat) time.Time {
	at := zkrec.UTC(stat.Mtime)
	known := ev.Entry.Ended
	switch {
	case ev.Kind == EventRunBegun:
		known = ev.Entry.Started
	case ev.Entry.Rev == h.Rev:
		return at
	}
	if known.IsZero() || known.After(at) {
		return at
	}
	return known
}

func entryPtr(e zkrec.Entry) *history.Entry {
	entry := e.Public()
	return &entry
}

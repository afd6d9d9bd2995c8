package runlog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// continuedBy reports whether a history continues the position. It does not if ZooKeeper was
// restored from a backup. A history that was never written, or is emptied, tells nothing.
func (p Position) continuedBy(h admin.SlotHistory) bool {
	switch {
	case p.Incarnation == 0, h.Rev == 0, h.Incarnation > p.Incarnation:
		return true
	case h.Incarnation < p.Incarnation, h.Rev < p.Rev, h.Number < p.Number:
		return false
	}
	return !slices.ContainsFunc(h.Entries, func(raw history.Entry) bool {
		e := entryOf(h, raw)
		switch {
		case e.Number > p.Number: // rows are about ticks after all of those before
			return e.isRow() && zkrec.Milli(e.Tick) <= p.Through
		case e.Number < p.Number || p.Key == "":
			return false
		}
		return e.Key != p.Key || e.isRow() && e.Rev <= p.Rev && zkrec.Milli(e.To) != p.Through
	})
}

// isRow reports whether the entry is about ticks of the schedule that were not run.
func (e Entry) isRow() bool {
	return e.Kind == NotRun && e.Manual == "" && !e.Tick.IsZero() && !e.To.IsZero()
}

// recalled is the log of a slot whose history does not continue it, newest first and back to the
// common entry.
type recalled struct {
	history admin.SlotHistory
	is      map[string]Entry // the history's entries, by their keys
	has     map[string]Entry // the log's, of those keys
	rows    []Entry          // of the log
	number  int64            // of the last entry that both have; 0 if none was found
	rev     int64            // of the last write of which both have an entry
	from    time.Time        // the first tick of the history's rows
	done    bool
}

func recall(h admin.SlotHistory) *recalled {
	r := &recalled{history: h, is: make(map[string]Entry), has: make(map[string]Entry)}
	for _, raw := range h.Entries {
		e := entryOf(h, raw)
		r.is[e.Key] = e
		if e.isRow() && r.from.IsZero() {
			r.from = e.Tick
		}
	}
	return r
}

// maxApart is more than what clocks differ by.
const maxApart = 24 * time.Hour

// take takes in an entry of the log. Before one that both have they do not differ, nor before one
// of a lower number than the history has, but that a row may be about the same ticks. An entry that
// was told again is not where it was.
func (r *recalled) take(e Entry) {
	if e.Incarnation != r.history.Incarnation || e.Kind != Ran && e.Kind != NotRun {
		return
	}
	is, known := r.is[e.Key]
	same := known && is.Number == e.Number && is.Rev == e.Rev && is.To.Equal(e.To) && is.Ended.Equal(e.Ended)
	if same {
		r.number, r.rev = max(r.number, e.Number), max(r.rev, e.Rev)
	}
	if known {
		r.has[e.Key] = e
	}
	if e.Kind == NotRun {
		r.rows = append(r.rows, e)
	}
	apart := e.Number < first(r.history) && (r.from.IsZero() || e.At.Before(r.from.Add(-maxApart)))
	r.done = !e.Amended && (same || apart)
}

// news lists what leads from the log to the history. Runs that ZooKeeper has forgotten have been,
// and stay. Ticks that were not run are accounted for once more from there on, so rows lose their
// place.
func (r *recalled) news(p Position, now time.Time) []Entry {
	h := r.history
	number, rev := r.number, r.rev
	if number == 0 {
		number, rev = first(h)-1, h.Dropped
	}
	hole := p.hole(h, rev, number)
	var told time.Time // the first tick of the first row that is told
	for _, raw := range h.Entries {
		switch e := entryOf(h, raw); {
		case e.Number <= number && e.Manual == "" && e.To.After(hole.Tick):
			hole.Tick = e.To
		case e.Number > number && e.isRow() && told.IsZero():
			told = e.Tick
		}
	}
	if hole.To = zkrec.Time(p.Through); hole.To.Before(hole.Tick) {
		hole.To = hole.Tick
	}
	hole.Error = fmt.Sprintf("ZooKeeper has forgotten what the log has after entry %d of the history, as after a restore: runs stay, other ticks are told again", number)
	var news []Entry
	for _, e := range slices.Backward(r.rows) {
		if e.Number > number || !told.IsZero() && !e.To.Before(told) {
			e.Kind, e.At = Void, now
			news = append(news, e)
		}
	}
	news = append(news, hole)
	for _, e := range p.After(hole).news(h) {
		was, told := r.has[e.Key]
		e.Amended = e.Amended || told
		if told && e.Kind == Ran && was.State != history.StateInterrupted && was.State != history.StateLost { // the result that it has had
			was.Number, was.Rev = e.Number, e.Rev
			e.Entry, e.At = was.Entry, was.At
		}
		news = append(news, e)
	}
	return news
}

// recall reads the log of the histories that do not continue it, by slot.
func (r *reader) recall(ctx context.Context, histories map[string]admin.SlotHistory) (map[string]*recalled, error) {
	found := make(map[string]*recalled)
	for slot, h := range histories {
		if !r.state.Positions[slot].continuedBy(h) {
			found[slot] = recall(h)
		}
	}
	left := len(found)
	if left == 0 {
		return found, nil
	}
	for e, err := range r.store.Entries(ctx, Query{Group: r.o.Group}) {
		if err != nil {
			return nil, err
		}
		of := found[e.Slot]
		if of == nil || of.done {
			continue
		}
		if of.take(e); of.done {
			left--
		}
		if left == 0 {
			break
		}
	}
	return found, nil
}

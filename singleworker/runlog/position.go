package runlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Position is up to where the log has a slot's history. The zero Position has nothing.
type Position struct {
	Incarnation int64 `json:"incarnation,omitempty"`
	// Rev is the last write of the history that the log has, and Number its last entry.
	Rev    int64 `json:"rev,omitempty"`
	Number int64 `json:"number,omitempty"`
	// Key is the last entry's, or empty after a Hole. Through is the last tick of the schedule, in
	// Unix milliseconds. A history that was restored may have the same numbers for others.
	Key     string `json:"key,omitempty"`
	Through int64  `json:"through,omitempty"`
}

// After is the position after an entry was appended.
func (p Position) After(e Entry) Position {
	if e.Incarnation != p.Incarnation {
		p = Position{Incarnation: e.Incarnation}
	}
	switch e.Kind {
	case Hole:
		if e.Number != p.Number {
			p.Key, p.Through = "", zkrec.Milli(e.Tick)
		}
		p.Rev, p.Number = e.Rev, e.Number
	case Ran, NotRun:
		p.Rev = max(p.Rev, e.Rev)
		if e.Number >= p.Number {
			p.Number, p.Key = e.Number, e.Key
		}
		if e.Manual == "" {
			p.Through = max(p.Through, zkrec.Milli(e.To))
		}
	case Gone, Void, Mark:
	}
	return p
}

// begin is the position of a log that begins with a history: forgotten entries of that are no hole.
func begin(h admin.SlotHistory) Position {
	return Position{Incarnation: h.Incarnation, Rev: h.Dropped, Number: first(h) - 1}
}

// first is the number of the first entry that a history has not forgotten.
func first(h admin.SlotHistory) int64 {
	if len(h.Entries) == 0 {
		return h.Number + 1
	}
	return h.Entries[0].Number
}

// news lists a history's entries that the log does not have. A log that ends after any of it,
// because the rest was not written, continues with the rest: entries that have changed come by the
// writes that changed them, with the hole where the last one is that is forgotten, and then those
// that were added.
func (p Position) news(h admin.SlotHistory) []Entry {
	if p.Incarnation != h.Incarnation {
		before := h.Inherited
		if p.Incarnation != 0 && p.Incarnation == before.Incarnation && p.Rev <= before.Rev && p.Number <= before.Number {
			before.Rev, before.Number = p.Rev, p.Number // the log lacks the rest
		}
		p = Position{Incarnation: h.Incarnation, Rev: before.Rev, Number: before.Number}
	}
	var changed, added []Entry
	for _, e := range h.Entries {
		switch entry := entryOf(h, e); {
		case e.Number > p.Number:
			added = append(added, entry)
		case e.Rev > p.Rev:
			entry.Amended = true
			changed = append(changed, entry)
		}
	}
	if missing := first(h) - 1 - p.Number; missing > 0 || h.Dropped > p.Rev {
		e := p.hole(h, max(p.Rev, h.Dropped), p.Number+max(missing, 0))
		e.Tick, e.To = zkrec.Time(p.Through), h.Written
		if len(added) > 0 {
			e.To = added[0].Tick
		}
		if e.To.Before(e.Tick) { // the tick of a manual run is when it was requested
			e.To = e.Tick
		}
		if e.Error = "a change of an entry, such as the late result of a run, was forgotten before it was read"; missing > 0 {
			e.Error = fmt.Sprintf("%d entries of the history, up to number %d, were forgotten before they were read", missing, e.Number)
		}
		changed = append(changed, e)
	}
	slices.SortStableFunc(changed, func(a, b Entry) int { return cmp.Compare(a.Rev, b.Rev) })
	return append(changed, added...)
}

// hole is a hole after which the log continues from a write and from an entry of a history.
func (p Position) hole(h admin.SlotHistory, rev, number int64) Entry {
	return Entry{
		Slot: h.Name, Job: zkrec.JobOfSlot(h.Name), Incarnation: h.Incarnation, Kind: Hole, At: h.Written,
		Key: fmt.Sprintf("hole:%d:%d", zkrec.Milli(h.Written), rev), Entry: history.Entry{Rev: rev, Number: number},
	}
}

func entryOf(h admin.SlotHistory, e history.Entry) Entry {
	key := keyOf(e) // of what the record says
	e = clean(e)
	entry := Entry{
		Slot: h.Name, Job: zkrec.JobOfSlot(h.Name), Incarnation: h.Incarnation, Key: key, Kind: Ran, At: e.Ended, Entry: e,
	}
	if e.RunID == "" {
		entry.Kind = NotRun
	}
	if entry.At.IsZero() {
		entry.At = h.Written
	}
	return entry
}

// maxText is longer than names are, maxPast than a history.Past.
const (
	maxText = 255
	maxPast = 16
)

// clean returns an entry that every store can hold. Records may be written by anyone.
func clean(e history.Entry) history.Entry {
	for _, t := range []*time.Time{&e.Tick, &e.To, &e.Started, &e.Ended} {
		if year := t.Year(); year < 1 || year > 9999 { // what RFC 3339 can say
			*t = time.Time{}
		}
	}
	for _, text := range []*string{&e.Manual, &e.InstanceID, &e.RunID, &e.TakenFrom} {
		*text = cut(*text, maxText)
	}
	e.State, e.Reason = history.State(cut(string(e.State), maxText)), history.Reason(cut(string(e.Reason), maxText))
	e.Past = history.Past(cut(string(e.Past), maxPast))
	e.Error = cut(e.Error, zkrec.MaxErrorBytes)
	return e
}

// cut makes a text of at most so many bytes, valid UTF-8 and without the NUL that databases refuse.
func cut(text string, most int) string {
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}

package runlog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Position is what the log has of one slot's history. The zero Position has nothing.
type Position struct {
	Incarnation int64 `json:"incarnation,omitempty"`
	// Last is the Key of the newest entry, or empty.
	Last string `json:"last,omitempty"`
	// Through is the last tick of that entry, in Unix milliseconds. Rows grow.
	Through int64 `json:"through,omitempty"`
	// Open are the runs whose results may still come, because they were interrupted or lost.
	Open []OpenRun `json:"open,omitempty"`
}

// OpenRun is a run that is in the log without its result.
type OpenRun struct {
	Key   string `json:"key"`
	State string `json:"state"`
	Ended int64  `json:"ended"` // Unix milliseconds
}

func openRun(key string, e admin.Entry) OpenRun { return OpenRun{key, e.State, e.Ended.UnixMilli()} }

// maxOpen is more than the entries of a history.
const maxOpen = 256

// After is the position after an entry was appended.
func (p Position) After(e Entry) Position {
	if e.Incarnation != p.Incarnation {
		p = Position{Incarnation: e.Incarnation}
	}
	switch e.Kind {
	case Hole:
		p.Last, p.Through = "", e.To.UnixMilli()
		return p
	case Ran, NotRun:
	case Gone, Mark:
		return p
	}
	if !e.Amended {
		p.Last, p.Through = e.Key, e.To.UnixMilli()
	}
	p.Open = slices.DeleteFunc(slices.Clone(p.Open), func(r OpenRun) bool { return r.Key == e.Key })
	if mayBeAmended(e.Entry) {
		p.Open = append(p.Open, openRun(e.Key, e.Entry))
		p.Open = p.Open[max(0, len(p.Open)-maxOpen):]
	}
	return p
}

func mayBeAmended(e admin.Entry) bool {
	return e.State == admin.RunInterrupted || e.State == admin.RunLost
}

// News returns what a history has that the log has not, oldest first, and the position after that. It has no numbers yet. In a log
// that begins, what came before the history is no hole.
func (p Position) News(h admin.SlotHistory, begins bool) ([]Entry, Position) {
	if p.Incarnation != h.Incarnation {
		p = Position{Incarnation: h.Incarnation}
	}
	known := -1 // the newest entry that the log has
	for i, e := range slices.Backward(h.Entries) {
		if p.Last != "" && keyOf(e) == p.Last {
			known = i
			break
		}
	}
	var news []Entry
	switch {
	case known >= 0:
	case p.Last != "", h.Full && !begins && len(h.Entries) > 0 && p.Through != h.Entries[0].Tick.UnixMilli():
		news = append(news, hole(p, h))
	}
	for i, e := range h.Entries {
		entry := entryOf(h, e)
		entry.Amended = i <= known && slices.ContainsFunc(p.Open, func(r OpenRun) bool { return r.Key == entry.Key && r != openRun(r.Key, entry.Entry) })
		grown := i == known && e.RunID == "" && entry.To.UnixMilli() != p.Through
		if i > known || entry.Amended || grown {
			news = append(news, entry)
		}
	}
	for _, e := range news {
		p = p.After(e)
	}
	p.Open = slices.DeleteFunc(slices.Clone(p.Open), func(r OpenRun) bool {
		return !slices.ContainsFunc(h.Entries, func(e admin.Entry) bool { return keyOf(e) == r.Key })
	})
	return news, p
}

func entryOf(h admin.SlotHistory, e admin.Entry) Entry {
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

func hole(p Position, h admin.SlotHistory) Entry {
	e := Entry{
		Slot: h.Name, Job: zkrec.JobOfSlot(h.Name), Incarnation: h.Incarnation, Kind: Hole, At: h.Written,
		Key: fmt.Sprintf("hole:%d", p.Through),
	}
	if p.Through != 0 {
		e.Tick = time.UnixMilli(p.Through).UTC()
	}
	e.To = h.Written
	e.Error = "the history was emptied"
	switch {
	case len(h.Entries) > 0 && p.Last == "":
		e.To = clean(h.Entries[0]).Tick
		e.Error = fmt.Sprintf("the history, of %d entries, may have forgotten some before it was read for the first time", len(h.Entries))
	case len(h.Entries) > 0:
		e.To = clean(h.Entries[0]).Tick
		e.Error = fmt.Sprintf("the history, of %d entries, had forgotten some before it was read", len(h.Entries))
	}
	if e.To.Before(e.Tick) { // the history is older than the log; or the tick is a manual run's, when it was requested
		e.Tick, e.To = e.To, e.Tick
		e.Error = "ZooKeeper's history begins before what the log has last, as after a restore: the log may have some entries twice"
	}
	return e
}

// maxText is longer than names are.
const maxText = 255

// clean returns an entry that every store can hold. Records may be written by anyone.
func clean(e admin.Entry) admin.Entry {
	for _, t := range []*time.Time{&e.Tick, &e.To, &e.Started, &e.Ended} {
		if year := t.Year(); year < 1 || year > 9999 { // what RFC 3339 can say
			*t = time.Time{}
		}
	}
	reason := string(e.Reason)
	for _, text := range []*string{&e.Manual, &e.State, &e.InstanceID, &e.RunID, &e.TakenFrom, &reason} {
		*text = cut(*text, maxText)
	}
	e.Reason = admin.Reason(reason)
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

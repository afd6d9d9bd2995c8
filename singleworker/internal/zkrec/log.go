package zkrec

import (
	"cmp"
	"fmt"
	"slices"
)

// Log is a History as the owner of a slot continues it. Its entries stay encoded, so that one costs
// something when it is added, not each time that another follows. A Log is not changed, but
// replaced.
type Log struct {
	mark    Mark
	dropped int64
	newest  int // the index of the page that the next entry is added to
	pages   *[HistoryPages]page
}

// all are the pages, to be read.
func (l *Log) all() *[HistoryPages]page {
	if l.pages == nil {
		return new([HistoryPages]page)
	}
	return l.pages
}

// own makes the pages l's own, to be changed.
func (l *Log) own() {
	pages := *l.all()
	l.pages = &pages
}

// ParseLog reads the nodes of a history, in their order. Those that do not exist are empty.
func ParseLog(data [][]byte) (Log, error) {
	l, _, err := parsePages(data)
	return l, err
}

// parsePages returns the pages of a history's nodes, and the entries, the oldest first.
func parsePages(data [][]byte) (l Log, entries []Entry, err error) {
	for i, data := range data {
		p, found, err := parsePage(data)
		if err != nil {
			return Log{}, nil, err
		}
		if p.Rev == 0 {
			continue // it was never written: that of a slot that has not run takes no memory
		}
		if l.pages == nil {
			l.own()
		}
		l.pages[i] = p
		if p.last() > l.mark.Number {
			l.mark.Number, l.newest = p.last(), i
		}
		l.mark.Rev, l.dropped = max(l.mark.Rev, p.Rev), max(l.dropped, p.Dropped)
		entries = append(entries, found...)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Number, b.Number) })
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Number == entries[i].Number {
			return Log{}, nil, fmt.Errorf("history: two pages have an entry %d", entries[i].Number)
		}
	}
	return l, entries, nil
}

// IsEmpty reports whether there are no entries.
func (l Log) IsEmpty() bool { return l.pages == nil || len(l.pages[l.newest].Entries) == 0 }

// Mark is the end of the log.
func (l Log) Mark() Mark { return l.mark }

// From returns l with numbers that continue after a mark. A history that is behind the mark was
// emptied, by a repair or manually: its entries up to there are forgotten.
func (l Log) From(m Mark) Log {
	if l.mark.Rev < m.Rev {
		l.mark.Rev, l.dropped = m.Rev, m.Rev
	}
	l.mark.Number = max(l.mark.Number, m.Number)
	return l
}

// Add returns l with entries appended, given the slot's Watermark before, of which it keeps at
// least so many. Ticks that were not run are merged into the last entry if that is of the same kind
// and directly precedes them.
func (l Log) Add(keep int, through int64, entries ...Entry) Log {
	if len(entries) == 0 {
		return l
	}
	l.own()
	l.mark.Rev++
	for _, e := range entries {
		e.Error = CutError(e.Error)
		if last, ok := l.continuedBy(through, e); ok {
			last.Count = min(last.Ticks()+e.Ticks(), MaxCount)
			last.To, last.Ended = e.Last(), e.Ended
			last.Rev = l.mark.Rev
			p := &l.pages[l.newest]
			l.put(p, len(p.Entries)-1, last.Rev, p.encode(last))
		} else {
			l.append(keep, e)
		}
		if e.RunID == "" {
			through = e.Last()
		}
	}
	return l
}

// append adds an entry, on a new page if the newest is full.
func (l *Log) append(keep int, e Entry) {
	l.mark.Number++
	e.Number, e.Rev = l.mark.Number, l.mark.Rev
	p := &l.pages[l.newest]
	n, data := len(p.Entries), p.encode(e)
	if n == 0 || n >= (keep+HistoryPages-2)/(HistoryPages-1) || p.size()+len(data) > MaxPageBytes || p.last()+1 != e.Number {
		if n > 0 {
			l.newest = (l.newest + 1) % HistoryPages
			p = &l.pages[l.newest]
		}
		for _, rev := range p.revs {
			l.dropped = max(l.dropped, rev)
		}
		*p = page{First: e.Number, Ahead: e.Rev - e.Number, Writer: Writer{e.SID, e.Token}, unknown: p.unknown.only(isLasting)}
		data = p.encode(e)
	}
	l.put(p, len(p.Entries), e.Rev, data)
}

// put writes an encoded entry to a page, where one is or after the last one.
func (l *Log) put(p *page, i int, rev int64, data []byte) {
	p.Rev, p.Entries, p.revs = l.mark.Rev, slices.Clone(p.Entries), slices.Clone(p.revs)
	if i == len(p.Entries) {
		p.Entries, p.revs = append(p.Entries, nil), append(p.revs, 0)
	}
	p.Entries[i], p.revs[i] = data, rev
}

// continuedBy is the last entry, if it is a row of ticks up to a time, which e continues.
func (l *Log) continuedBy(through int64, e Entry) (last Entry, ok bool) {
	p := &l.pages[l.newest]
	if e.RunID != "" || len(p.Entries) == 0 || p.last() != l.mark.Number {
		return last, false
	}
	last = p.mustDecode(len(p.Entries) - 1)
	return last, last.continues(e) && last.Last() == through
}

// Amend returns l with the entry of e's run replaced by e. ok is false if the run is no longer in
// l.
func (l Log) Amend(e Entry) (amended Log, ok bool) {
	was, ok := l.ofRun(e.RunID)
	if !ok {
		return l, false
	}
	l.mark.Rev++
	e.Rev = l.mark.Rev
	return l.Replace(e.asWritten(was)), true
}

// ofRun is the entry of a run.
func (l Log) ofRun(id string) (e Entry, ok bool) {
	for _, p := range l.all() {
		for i := range p.Entries {
			if e = p.mustDecode(i); e.RunID == id {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// Found is the entry of the run that found the effects of another run, of that ID.
func (l Log) Found(id string) (e Entry, ok bool) {
	for _, p := range l.all() {
		for i := range p.Entries {
			if e = p.mustDecode(i); e.Effects != (Effects{}) && e.Effects.Value().RunID == id {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// Says reports whether l has e already, as what became of its run: it was written, and the answer
// was lost.
func (l Log) Says(e Entry) bool {
	was, ok := l.ofRun(e.RunID)
	e.Rev = was.Rev
	return ok && was == e.asWritten(was)
}

// Replace returns l with the entry of e's number replaced by e.
func (l Log) Replace(e Entry) Log {
	l.own()
	for k := range l.pages {
		if p := &l.pages[k]; e.Number >= p.First && e.Number <= p.last() {
			l.put(p, int(e.Number-p.First), e.Rev, p.encode(e))
		}
	}
	return l
}

// Changed lists the pages that the last Add or Amend has changed, by their index.
func (l Log) Changed() (pages []int) {
	for i, p := range l.all() {
		if p.Rev == l.mark.Rev && p.Rev > 0 {
			pages = append(pages, i)
		}
	}
	return pages
}

// Encode returns the data of a page's node.
func (l Log) Encode(page int) []byte {
	p := l.all()[page]
	p.Dropped = l.dropped
	return p.unknown.Encode(p)
}

// Emptied is a page without entries, for one that cannot be read: entries of the history up to a
// mark may be forgotten.
func Emptied(m Mark) []byte { return mustJSON(page{Rev: m.Rev, Dropped: m.Rev}) }

// History decodes the entries.
func (l Log) History() History {
	h := History{Mark: l.mark, Dropped: l.dropped}
	pages := l.all()
	for k := range pages {
		p := &pages[(l.newest+1+k)%HistoryPages]
		for i := range p.Entries {
			h.Entries = append(h.Entries, p.mustDecode(i))
		}
	}
	return h
}

// mustDecode reads an entry that was encoded, or read, before.
func (p *page) mustDecode(i int) Entry {
	e, err := p.decode(i)
	if err != nil {
		panic(fmt.Sprintf("zkrec: decode an entry: %v", err))
	}
	return e
}

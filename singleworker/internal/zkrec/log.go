package zkrec

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Log is a History as the owner of a slot continues it. Its entries stay encoded, so that one costs
// something when it is added, not each time that another follows.
type Log struct{ entries [][]byte }

// ParseLog reads a history node.
func ParseLog(data []byte) (Log, error) {
	if h, err := ParseHistory(data); err != nil || len(h.Entries) == 0 {
		return Log{}, err
	}
	var raw struct {
		Entries []json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Log{}, fmt.Errorf("history %s: %w", excerpt(data), err)
	}
	var l Log
	for _, entry := range raw.Entries {
		l.entries = append(l.entries, entry)
	}
	return l, nil
}

// IsEmpty reports whether there are no entries.
func (l Log) IsEmpty() bool { return len(l.entries) == 0 }

// Add is History.Add, but that so many entries are kept.
func (l Log) Add(keep int, through int64, entries ...Entry) Log {
	var end History // what the entries may be merged into
	kept := l.entries
	if n := len(kept); n > 0 && len(entries) > 0 && entries[0].RunID == "" {
		end.Entries, kept = []Entry{decodeEntry(kept[n-1])}, kept[:n-1]
	}
	end = end.Add(through, entries...)
	all := make([][]byte, 0, len(kept)+len(end.Entries))
	all = append(all, kept...)
	for _, e := range end.Entries {
		all = append(all, mustJSON(e))
	}
	return Log{slices.Clip(all[max(0, len(all)-keep):])}
}

// Amend is History.Amend.
func (l Log) Amend(e Entry) (amended Log, ok bool) {
	for i, old := range l.entries {
		if decodeEntry(old).RunID == e.RunID {
			e.Error = CutError(e.Error)
			all := slices.Clone(l.entries)
			all[i] = mustJSON(e)
			return Log{all}, true
		}
	}
	return l, false
}

// Encode returns the node's data, as History.Encode does.
func (l Log) Encode() []byte {
	head := fmt.Appendf(nil, `{"schema":%d,"entries":[`, Schema)
	const tail = "]}"
	kept, size := l.entries, len(head)+len(tail)-1
	for _, e := range kept {
		size += len(e) + 1
	}
	for ; size > MaxRecordBytes && len(kept) > 1; kept = kept[1:] {
		size -= len(kept[0]) + 1
	}
	data := append(make([]byte, 0, size), head...)
	for i, e := range kept {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, e...)
	}
	return append(data, tail...)
}

// History decodes the entries.
func (l Log) History() History {
	h := History{Schema: Schema}
	for _, e := range l.entries {
		h.Entries = append(h.Entries, decodeEntry(e))
	}
	return h
}

// decodeEntry reads an entry that was encoded, or read, before.
func decodeEntry(data []byte) Entry {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		panic(fmt.Sprintf("zkrec: decode an entry: %v", err))
	}
	return e
}

package zkrec

import (
	"encoding/json"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/history"
)

// Mark is a position in a slot's history: what somebody has read up to there, or written. Marks of
// two histories, of a job and of another that was submitted under its name later, cannot be
// compared: see the czxid of their nodes.
type Mark struct {
	Rev    int64 // of the last write: how many there were
	Number int64 // of the last entry: how many there were
}

// MarshalJSON writes a mark as [rev,number], or as one number if they are the same, because each
// claim and each result has one.
func (m Mark) MarshalJSON() ([]byte, error) {
	if m.Rev == m.Number {
		return json.Marshal(m.Rev)
	}
	return json.Marshal([]int64{m.Rev, m.Number})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (m *Mark) UnmarshalJSON(data []byte) error {
	var both int64
	if err := json.Unmarshal(data, &both); err == nil {
		*m = Mark{both, both}
		return nil
	}
	var pair []int64
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a mark has %d numbers, want 2", len(pair))
	}
	*m = Mark{pair[0], pair[1]}
	return nil
}

// Entry is the outcome of a tick, or of consecutive ticks that were not run.
type Entry struct {
	Number int64 // from 1; it never changes
	Rev    int64 // of the write that has last changed it
	Run
	To     int64 // the last of several ticks
	Count  int   // of several ticks; MaxCount means at least that many
	Reason history.Reason

	writer Unknown // of its Writer
}

// MaxCount is the limit up to which an entry's ticks are counted.
const MaxCount = 10_000

// Last is the last tick of the entry.
func (e Entry) Last() int64 { return max(e.Tick, e.To) }

// Ticks is the number of ticks of the entry.
func (e Entry) Ticks() int { return max(e.Count, 1) }

// asWritten returns e as it replaces the entry of its run: with its number, and what else that
// says.
func (e Entry) asWritten(was Entry) Entry {
	e.Error, e.Number, e.unknown, e.writer = CutError(e.Error), was.Number, was.unknown, was.writer
	return e
}

// continues reports whether e and next are about ticks not run, with the same
// reason and owner.
func (e Entry) continues(next Entry) bool {
	return e.RunID == "" && next.RunID == "" && e.State == next.State && e.Reason == next.Reason && e.Error == next.Error &&
		e.SID == next.SID && e.Token == next.Token
}

// History is the content of a slot's history nodes: its last entries, the newest last. A Log writes
// it.
type History struct {
	Mark
	Dropped int64 // the highest Rev of an entry that was forgotten to make room
	Entries []Entry
}

// MinHistory is how many entries are kept at least, unless the instance that writes keeps more;
// fewer, if they would take more than MaxRecordBytes in all.
const MinHistory = 20

// Since lists the entries that were added, or changed, after a mark. whole is false if others, that
// were, are forgotten. A history that is behind the mark, as after a restore, has nothing that is
// known to be new.
func (h History) Since(m Mark) (news []Entry, whole bool) {
	for _, e := range h.Entries {
		if e.Rev > m.Rev {
			news = append(news, e)
		}
	}
	return news, h.Dropped <= m.Rev && !h.Behind(m)
}

// Behind reports whether a mark is of a later time than the history: the server was restored from a
// backup.
func (h History) Behind(m Mark) bool { return h.Rev < m.Rev || h.Number < m.Number }

// ParseHistory reads the nodes of a history, in their order. Those that do not exist are empty.
func ParseHistory(data [][]byte) (History, error) {
	l, entries, err := parsePages(data)
	return History{l.mark, l.dropped, entries}, err
}

package ledger

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// judgeMarks verifies that the writes of a history are numbered without a gap, so that who has read it up to one of them finds what came
// after it, or that it is forgotten.
func (l *Ledger) judgeMarks(j *Job, t *touch) {
	if !t.before.Known.History || !j.Known.History {
		return
	}
	was, is := t.before.History, j.History
	if repaired := t.before.Tick.History; repaired.Rev > was.Rev {
		was = zkrec.History{Mark: repaired, Dropped: repaired.Rev}
	}
	if t.set.history && is.Rev != was.Rev+1 {
		l.violatef(Account, j.Name, "write %d of the history follows write %d", is.Rev, was.Rev)
		return
	}
	if j.Tick.History != is.Mark {
		l.violatef(Account, j.Name, "the history is at %+v, and the tick record says %+v", is.Mark, j.Tick.History)
		return
	}
	for i, e := range is.Entries {
		if next := is.Number - int64(len(is.Entries)-1-i); e.Number != next {
			l.violatef(Account, j.Name, "the history ends with entry %d, and has entry %d as entry %d", is.Number, e.Number, next)
		}
		changed := !slices.Contains(was.Entries, e)
		if changed && e.Rev != is.Rev || !changed && e.Rev == is.Rev && t.set.history {
			l.violatef(Account, j.Name, "entry %d says that write %d has last changed it: this is %d", e.Number, e.Rev, is.Rev)
		}
	}
	for _, e := range was.Entries {
		forgotten := !slices.ContainsFunc(is.Entries, func(kept zkrec.Entry) bool { return kept.Number == e.Number })
		if forgotten && is.Dropped < e.Rev {
			l.violatef(Account, j.Name, "entry %d, of write %d, is forgotten: the history owns up to write %d", e.Number, e.Rev, is.Dropped)
		}
	}
}

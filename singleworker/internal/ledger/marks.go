package ledger

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// judgeMarks verifies that the writes of a history are numbered without a gap, so that who has read
// it up to one of them finds the later entries, or that they are forgotten.
func (l *Ledger) judgeMarks(j *Job, t *touch) {
	if !t.before.Known.History || !j.Known.History {
		return
	}
	was, is := t.before.History, j.History
	repaired := t.before.Tick.History // if that is further, pages were lost
	was.Number, is.Number = max(was.Number, repaired.Number), max(is.Number, repaired.Number)
	if repaired.Rev > was.Rev {
		was.Rev, was.Dropped = repaired.Rev, repaired.Rev
	}
	if !t.set.history {
		is = was // as its next writer reads it
	} else if is.Rev != was.Rev+1 {
		l.violatef(Account, j.Name, "write %d of the history follows write %d", is.Rev, was.Rev)
		return
	}
	if j.Tick.History != is.Mark {
		l.violatef(Account, j.Name, "the history is at %+v, and the tick record says %+v", is.Mark, j.Tick.History)
		return
	}
	last := was.Number
	for _, e := range is.Entries {
		if !has(was, e.Number) {
			last++
		}
		if changed := !slices.Contains(was.Entries, e); changed && e.Rev != is.Rev {
			l.violatef(Account, j.Name, "entry %d says that write %d has last changed it: this is %d", e.Number, e.Rev, is.Rev)
		}
	}
	if last != is.Number {
		l.violatef(Account, j.Name, "the history ends with entry %d, and is to end with entry %d", is.Number, last)
	}
	forgotten := was.Dropped
	for _, e := range was.Entries {
		if !has(is, e.Number) {
			forgotten = max(forgotten, e.Rev)
		}
	}
	if is.Dropped < forgotten {
		l.violatef(Account, j.Name, "an entry of write %d is forgotten, and the history owns up to write %d", forgotten, is.Dropped)
	}
}

// has reports whether a history has the entry of that number.
func has(h zkrec.History, number int64) bool {
	return slices.ContainsFunc(h.Entries, func(e zkrec.Entry) bool { return e.Number == number })
}

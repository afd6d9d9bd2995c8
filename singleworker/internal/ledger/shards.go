package ledger

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// judgeSpec takes in a job's spec, and judges its layout.
func (l *Ledger) judgeSpec(j *Job, t *touch) {
	if !j.Known.Spec {
		l.counts.Unread++
		return
	}
	layout := j.Spec.ActiveLayout()
	if t.made.job || !t.before.Known.Spec {
		delete(l.latest, j.Name)
		l.divided(j.Name, layout)
		return
	}
	last := t.before.Spec.ActiveLayout()
	if layout.Since == last.Since && layout.Equal(last.Sharding) {
		return
	}
	l.counts.Layouts++
	if layout.Since != last.Until || last.Until == 0 || l.latest[j.Name] > layout.Since {
		l.violatef(Shards, j.Name, "a layout of %d shards from %s follows one of %d that ends at %s, and %s is claimed", layout.Shards,
			clockMs(layout.Since), last.Shards, clockMs(last.Until), clockMs(l.latest[j.Name]))
	}
	for _, slot := range last.Slots(j.Name) {
		of := l.model.Jobs[slot]
		if of == nil || !of.Known.Tick {
			if l.whole {
				l.violatef(Shards, slot, "the next layout begins at %s, and its tick record is not there", clockMs(layout.Since))
			}
			continue
		}
		rec := of.Tick
		spans, ok := l.due(t.before.Spec, rec)
		if open := ok && spans.next(rec.Watermark) <= layout.Since; open || !rec.Finished() || rec.Watermark > layout.Since {
			l.violatef(Shards, slot, "the next layout begins at %s, and it is at %s, run %q %s", clockMs(layout.Since), clockMs(rec.Watermark),
				rec.RunID, rec.State)
		}
	}
	l.divided(j.Name, layout)
}

func (l *Ledger) divided(job string, layout zkrec.Layout) {
	if l.observe.Divided != nil {
		l.observe.Divided(job, layout)
	}
}

// judgeLayoutOf verifies that a claim agrees with the layout in effect.
func (l *Ledger) judgeLayoutOf(j *Job, last, rec zkrec.Tick) {
	if !j.Known.Spec {
		return
	}
	layout := j.Spec.ActiveLayout()
	if !hasSlot(&j.Spec, j.Name) {
		l.violatef(Shards, j.Name, "%s claims %s, and there are %d shards", rec.SID, clockMs(rec.Tick), layout.Shards)
	}
	if rec.Manual != "" {
		return
	}
	if ends := j.Spec.Resizing() && rec.Tick > last.Watermark && rec.Tick > layout.Until; ends || rec.Tick <= layout.Since {
		l.violatef(Shards, j.Name, "%s claims %s, which is not a tick of the layout of %d shards from %s to %s", rec.SID, clockMs(rec.Tick),
			layout.Shards, clockMs(layout.Since), clockMs(layout.Until))
	}
	of := zkrec.JobOfSlot(j.Name)
	l.latest[of] = max(l.latest[of], rec.Tick)
}

// judgeBegun verifies that BeforeTick has returned nil for a tick that a shard claims which waits
// for that.
func (l *Ledger) judgeBegun(j *Job, rec zkrec.Tick) {
	first, waits := j.Spec.ActiveLayout().WaitsFor(j.Name)
	if !waits || !j.Known.Spec {
		return
	}
	of := l.model.Jobs[first]
	if of == nil || !of.Known.Tick || !of.Known.History {
		l.counts.Unjudged++
		return
	}
	history := of.History.Entries
	runs := append(slices.Clone(history), zkrec.Entry{Run: of.Tick.Run})
	begun := slices.ContainsFunc(runs, func(e zkrec.Entry) bool {
		return e.RunID != "" && e.Manual == "" && e.Tick == rec.Tick && e.Passed != 0
	})
	switch {
	case begun: // as it must be
	case len(history) > 0 && history[0].Tick > rec.Tick:
		l.counts.Unjudged++ // the history does not go back that far
	default:
		l.violatef(Shards, j.Name, "%s claims %s, of which BeforeTick has not returned nil in %s: that is at %s, %s", rec.SID, clockMs(rec.Tick),
			first, clockMs(of.Tick.Tick), of.Tick.State)
	}
}

// judgeComplete judges a record of complete ticks.
func (l *Ledger) judgeComplete(j *Job, t *touch) {
	if !j.Known.Complete {
		l.unread(j, "record of complete ticks")
		return
	}
	if !t.before.Known.Complete || !j.Known.Spec {
		l.counts.Unjudged++
		return
	}
	l.counts.Complete++
	layout := j.Spec.ActiveLayout()
	after, through := max(t.before.Complete.Tick, layout.Since), j.Complete.Tick
	if through <= after {
		l.violatef(Shards, j.Name, "ticks up to %s are complete, after %s", clockMs(through), clockMs(after))
	}
	for _, slot := range layout.Slots(j.Name) {
		of := l.model.Jobs[slot]
		if of == nil && !l.whole || of != nil && !of.Known.Tick {
			l.counts.Unjudged++
			continue
		}
		if of == nil || done(of.Tick) < through {
			l.violatef(Shards, slot, "it is not done with %s, which is said to be complete", clockMs(through))
		}
	}
	if l.observe.Complete != nil {
		l.observe.Complete(l.txn, j.Name, after, through)
	}
}

// done is the tick up to which none is to be run, or run again.
func done(rec zkrec.Tick) int64 {
	switch {
	case rec.Held.NextAttempt != "":
		return rec.Held.Tick - 1
	case rec.Manual == "" && !rec.Finished():
		return rec.Tick - 1
	}
	return rec.Watermark
}

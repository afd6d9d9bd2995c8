package sim

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// rescheduled takes in a job's spec, before it is known whether it has another layout: from the
// time on at which another schedule was written, by the server's clock, its ticks are the ticks of
// the job's slots.
func (l *ledger) rescheduled(job string, txn *zkdev.Txn, was, spec zkrec.Spec) {
	if zkrec.SameTimes(&spec.Job, &was.Job) {
		l.redated(job, was, spec)
		return
	}
	sched, err := l.scheduleOf(spec.Job)
	if err != nil {
		l.violatef(8, job, txn.Time, "its schedule cannot be read: %v", err)
		return
	}
	l.schedules++
	at := txn.Written.UnixMilli()
	if spec.Since != at {
		l.violatef(8, job, txn.Time, "a new schedule takes effect at %s", clockMs(spec.Since))
	}
	for slot, acc := range l.accounts {
		if zkrec.JobOfSlot(slot) != job {
			continue
		}
		// Ticks that a clock ahead has accounted for stay so, by the schedules before; so do ticks of a
		// former layout.
		from := max(at, acc.record.Watermark, spec.ActiveLayout().Since)
		last := acc.term()
		switch {
		case last.until != 0: // it belongs to no layout any more
		case last.since >= from:
			*last = term{since: from, of: spec.Job, sched: sched, most: spec.Job.MaxRuns} // before, if the server's clock has gone back
		default:
			last.until, last.replaced = from, true
			acc.terms = append(acc.terms, term{since: from, of: spec.Job, sched: sched, most: spec.Job.MaxRuns})
		}
	}
}

// termsOf lists the terms of a slot whose ticks begin after since, replaced schedules' terms
// included.
func (l *ledger) termsOf(spec zkrec.Spec, since int64) ([]term, error) {
	sched, err := l.scheduleOf(spec.Job)
	terms := []term{{since: max(spec.Since, since), of: spec.Job, sched: sched, most: spec.Job.MaxRuns}}
	until := terms[0].since
	for f := spec.Former; f != nil && until > since; f = f.Former {
		former, formerErr := l.scheduleOf(f.Job(spec.Job))
		if before := (term{since: max(f.Since, since), until: until, of: f.Job(spec.Job), sched: former, most: f.MaxRuns, replaced: true}); before.since < until {
			terms = append([]term{before}, terms...)
		}
		until, err = min(until, f.Since), errors.Join(err, formerErr)
	}
	return terms, err
}

// counted counts the ticks that are claimed in a term, by the claims and not by the record's count:
// the last one that MaxRuns allows ends the ticks of the term.
func (l *ledger) counted(acc *account, txn *zkdev.Txn, last, rec zkrec.Tick) {
	if rec.Manual != "" || rec.Tick <= last.Watermark {
		return
	}
	for k := range acc.terms {
		t := &acc.terms[k]
		if t.most == 0 || rec.Tick <= t.since || t.until != 0 && rec.Tick > t.until {
			continue
		}
		if t.claimed++; t.claimed == t.most {
			t.over = rec.Tick
			l.spent++
		}
		if t.claimed > t.most {
			l.violatef(8, acc.slot, txn.Time, "tick %s is number %d of %d", clockMs(rec.Tick), t.claimed, t.most)
		}
	}
}

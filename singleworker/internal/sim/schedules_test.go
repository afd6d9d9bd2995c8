package sim

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// rescheduled takes in a job's spec, before it is known whether it has another layout: from the
// time on at which another schedule was written, by the server's clock, its ticks are the ticks of
// the job's slots.
func (l *ledger) rescheduled(job string, txn *zkdev.Txn, was, spec zkrec.Spec) {
	if spec.Job.Schedule == was.Job.Schedule && spec.Job.TimeZone == was.Job.TimeZone {
		l.redated(job, was, spec)
		return
	}
	sched, err := spec.Job.ParseSchedule()
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
			last.since, last.sched = from, sched // before, if the server's clock has gone back
		default:
			last.until, last.replaced = from, true
			acc.terms = append(acc.terms, term{since: from, sched: sched})
		}
	}
}

// termsOf lists the terms of a slot whose ticks begin after since, replaced schedules' terms
// included.
func termsOf(spec zkrec.Spec, since int64) ([]term, error) {
	sched, err := spec.Job.ParseSchedule()
	terms := []term{{since: max(spec.Since, since), sched: sched}}
	until := terms[0].since
	for f := spec.Former; f != nil && until > since; f = f.Former {
		former, formerErr := jobs.Job{Schedule: f.Schedule, TimeZone: f.TimeZone}.ParseSchedule()
		if before := (term{since: max(f.Since, since), until: until, sched: former, replaced: true}); before.since < until {
			terms = append([]term{before}, terms...)
		}
		until, err = min(until, f.Since), errors.Join(err, formerErr)
	}
	return terms, err
}

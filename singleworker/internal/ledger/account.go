package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// zone is all that a schedule's ticks follow from.
type zone struct {
	schedule, timeZone  string
	notBefore, notAfter int64 // Unix nanoseconds of times that are set
	maxRuns             int
}

func zoneOf(j job.Job) zone {
	return zone{j.Schedule, j.TimeZone, j.NotBefore.UnixNano(), j.NotAfter.UnixNano(), j.MaxRuns}
}

// maxSchedules bounds the schedules that are kept parsed.
const maxSchedules = 20_000

// schedule parses a schedule, once if it has no calendars and no parents. It is nil if that is
// impossible. Calendars are as the transaction finds them, and know their former contents.
func (l *Ledger) schedule(j job.Job) *cronexpr.Schedule {
	if len(j.After)+len(j.Calendars) > 0 {
		return l.model.Schedule(j, func(j job.Job) *cronexpr.Schedule {
			sched, _ := l.model.Calendars.Into(zkrec.Spec{Job: j}).Job.ParseSchedule()
			return sched
		})
	}
	of := zoneOf(j)
	sched, known := l.schedules[of]
	if !known {
		if len(l.schedules) >= maxSchedules {
			clear(l.schedules)
		}
		sched, _ = j.ParseSchedule()
		l.schedules[of] = sched
	}
	return sched
}

// span is a time in which a schedule was in effect: the ticks after the first, up to the other.
type span struct {
	sched       *cronexpr.Schedule
	from, until int64
}

// due are the ticks that a slot has to account for, the oldest span first.
type due []span

// due works out from a spec the ticks that are due after those for which a record accounts. ok is
// false if a schedule cannot be read.
func (l *Ledger) due(spec zkrec.Spec, rec zkrec.Tick) (spans due, ok bool) {
	watermark := rec.Watermark
	begins := max(watermark, spec.ActiveLayout().Since)
	until := int64(math.MaxInt64)
	schedule, since := spec.Job, spec.Since
	for former := spec.Former; ; former = former.Former {
		from := max(begins, since)
		sched := l.schedule(schedule)
		if sched != nil && schedule.MaxRuns > 0 && rec.RunsSince == since && rec.Runs >= schedule.MaxRuns {
			sched = sched.Within(time.Time{}, time.UnixMilli(watermark)) // it may claim no more
		}
		if from < until && sched != nil {
			spans = append(spans, span{sched, from, until})
		} else if len(spans) == 0 {
			return nil, false // the current one; a former one that cannot be read has no ticks
		}
		if former == nil || watermark >= since {
			break
		}
		until = min(until, since) // one that began later than the next was replaced before it began
		schedule, since = former.Job(schedule), former.Since
	}
	slices.Reverse(spans)
	return spans, true
}

// next is the first tick later than the given one.
func (d due) next(tick int64) int64 {
	for _, s := range d {
		next := s.sched.Next(time.UnixMilli(max(tick, s.from)))
		if !next.IsZero() && next.UnixMilli() <= s.until {
			return next.UnixMilli()
		}
	}
	return math.MaxInt64
}

// always reports whether a job that always runs has its schedule at a time.
func (d due) always(tick int64) bool {
	return slices.ContainsFunc(d, func(s span) bool { return s.sched.Always() && tick > s.from && tick <= s.until })
}

// item is a part of an account: a claimed tick, or consecutive ticks that were not run.
type item struct {
	entry       zkrec.Entry
	first, last int64
	count       int
	more        bool // count is a lower bound
	claim       bool
}

// judgeBeginning judges a new tick record: it may skip no ticks that nobody has accounted for.
func (l *Ledger) judgeBeginning(j *Job) {
	switch {
	case !j.Known.Tick:
		l.unread(j, "tick record")
		return
	case !l.inForce(j.Name) || j.Tick.Watermark == l.txn.Time.UnixMilli():
		return // of a node that was missing: it begins when it is made
	case j.Born == l.txn.Zxid && j.Spec.Undeleted != nil:
		return // the ticks until then were accounted for before the job was canceled
	}
	job := l.model.Jobs[zkrec.JobOfSlot(j.Name)]
	from := max(job.Spec.Since, job.Spec.ShardsBegin(job.Complete)) // the latter if ZooKeeper's clock has gone back
	if spans, ok := l.due(job.Spec, zkrec.Tick{Watermark: from}); ok && spans.next(from) <= j.Tick.Watermark {
		l.violatef(Account, j.Name, "its ticks begin after %s, and tick %s is not accounted for", clockMs(j.Tick.Watermark), clockMs(spans.next(from)))
	}
}

// judgeEnd judges the deletion of a slot's tick record: it goes with its job, or when the layout no
// longer has the slot, or when the only instance that may own it does not live.
func (l *Ledger) judgeEnd(slot string, t *touch) {
	delete(l.claimed, slot)
	delete(l.runs, slot)
	delete(l.stops, slot)
	delete(l.policies, slot)
	if _, sid, part := zkrec.SplitInstance(slot); part {
		if _, lives := l.model.Instances[sid]; lives && l.inForce(slot) {
			l.violatef(Account, slot, "%s deletes what is on record of the ticks of %s, which lives", l.who(), sid)
		}
		return
	}
	if l.inForce(slot) || l.model.Jobs[zkrec.JobOfSlot(slot)] != nil && t.before.Tick.Open() && !t.before.Spec.Canceled {
		l.violatef(Account, slot, "%s deletes what is on record of its ticks, at %s, run %q %s", l.who(), clockMs(t.before.Tick.Watermark),
			t.before.Tick.RunID, t.before.Tick.State)
	}
}

// judgeAccount verifies that a transaction accounts for all ticks up to the new watermark, and each
// of them once.
func (l *Ledger) judgeAccount(j *Job, t *touch) {
	if !t.before.Known.History || !t.before.Known.Spec {
		l.counts.Unjudged++
		return
	}
	last, rec := t.before.Tick, j.Tick
	items, ok := l.added(j, t)
	if rec.RunID != last.RunID && rec.Manual == "" && rec.Tick > last.Watermark {
		items = append(items, item{first: rec.Tick, last: rec.Tick, count: 1, claim: true})
	}
	if !ok || len(items) == 0 && rec.Watermark == last.Watermark {
		return
	}
	spans, ok := l.due(t.before.Spec, last)
	if !ok {
		l.counts.Unjudged++
		return
	}
	pos := last.Watermark
	for _, i := range items {
		if pos, ok = l.judgeItem(j.Name, spans, i, pos); !ok {
			return
		}
	}
	if missing := spans.next(pos); missing <= rec.Watermark {
		l.violatef(Account, j.Name, "tick %s is not accounted for: %s moves the line from %s to %s", clockMs(missing), l.who(),
			clockMs(last.Watermark), clockMs(rec.Watermark))
	}
	if pos > rec.Watermark {
		l.violatef(Account, j.Name, "tick %s, beyond %s, is said not to have been run", clockMs(pos), clockMs(rec.Watermark))
	}
}

// judgeItem verifies that an item follows pos, and returns its last tick.
func (l *Ledger) judgeItem(slot string, spans due, i item, pos int64) (int64, bool) {
	if i.claim && spans.always(i.first) { // a tick is when it ran
		l.counts.Ticks++
		return i.first, true
	}
	next := spans.next(pos)
	if i.first == 0 {
		i.first = next // of a row that got longer
	}
	switch {
	case i.first < next && i.claim:
		l.violatef(Account, slot, "a run of what is no tick: %s, the next one is %s", clockMs(i.first), clockMs(next))
		return pos, false
	case i.first < next:
		l.violatef(Account, slot, "tick %s is in two entries, or is no tick: %s", clockMs(i.first), i.entry.State)
		return pos, false
	case i.first > next:
		l.violatef(Account, slot, "tick %s is not accounted for: %s follows %s", clockMs(next), clockMs(i.first), clockMs(pos))
		return pos, false
	}
	n := 0
	for t := next; t <= i.last && n < zkrec.MaxCount; t = spans.next(t) {
		n++
		pos = t
		if l.observe.Skipped != nil && !i.claim {
			l.observe.Skipped(slot, t, i.entry)
		}
	}
	l.counts.Ticks += n
	if whole := n < zkrec.MaxCount; whole && !i.more && n != i.count || whole && pos != i.last {
		l.violatef(Account, slot, "a row to %s miscounts its ticks: it says %d, there are %d up to %s", clockMs(i.last), i.count, n, clockMs(pos))
		return pos, false
	}
	return i.last, true
}

// added returns the new entries of a history, in its order, and judges the results of runs. ok is
// false if the rest cannot be judged.
func (l *Ledger) added(j *Job, t *touch) (items []item, ok bool) {
	if !t.set.history {
		return nil, l.judgeResult(j, t, nil)
	}
	old := t.before.History.Entries
	var ended []zkrec.Entry
	for _, e := range j.History.Entries {
		if slices.Contains(old, e) {
			continue
		}
		if e.RunID != "" {
			known := slices.IndexFunc(old, func(o zkrec.Entry) bool { return o.RunID == e.RunID })
			if known >= 0 {
				l.judgeAmended(j.Name, old[known], e)
			} else {
				ended = append(ended, e)
			}
			l.recorded(j.Name, e, known >= 0)
			continue
		}
		i := item{entry: e, first: e.Tick, last: e.Last(), count: e.Ticks(), more: e.Ticks() >= zkrec.MaxCount}
		for _, o := range old {
			if o.RunID == "" && o.Tick == e.Tick && o.Reason == e.Reason && o.Last() == t.before.Tick.Watermark {
				i.first, i.count = 0, i.count-o.Ticks()
			}
		}
		items = append(items, i)
	}
	return items, l.judgeResult(j, t, ended)
}

func (l *Ledger) recorded(slot string, e zkrec.Entry, amended bool) {
	if !amended {
		l.counts.Results++
	}
	if l.observe.Recorded != nil {
		l.observe.Recorded(l.txn, slot, e, amended)
	}
}

// judgeAmended judges an entry that replaces another: the result of a run that was given up came
// late.
func (l *Ledger) judgeAmended(slot string, old, e zkrec.Entry) {
	if old.State != history.StateInterrupted && old.State != history.StateLost || old.Tick != e.Tick || old.Attempt != e.Attempt {
		l.violatef(Account, slot, "run %s was %s and is %s", e.RunID, old.State, e.State)
	}
	l.judgeEffects(slot, e, job.Job{Interrupted: job.InterruptedAsk}) // it may have had another policy by then
}

// judgeEffects verifies that a run that says whose effects were found is ok, and had to ask.
func (l *Ledger) judgeEffects(slot string, e zkrec.Entry, policy job.Job) {
	if asks, _, _ := e.Asks(policy); e.Effects != (zkrec.Effects{}) && (e.State != history.StateOK || !asks) {
		l.violatef(Account, slot, "run %s, attempt %d, is %s by the effects of run %s, and had nothing to ask", e.RunID, e.Attempt, e.State,
			e.Effects.Value().RunID)
	}
}

// judgeResult verifies that a run gets its result, the run that was open alone and once.
func (l *Ledger) judgeResult(j *Job, t *touch, ended []zkrec.Entry) bool {
	last, rec := t.before.Tick, j.Tick
	for _, e := range ended {
		if e.RunID != last.RunID || !last.Open() {
			l.violatef(Account, j.Name, "run %s is %s and was never claimed, or has a result", e.RunID, e.State)
			return false
		}
		if e.NotBegun && e.State != history.StateInterrupted {
			l.violatef(Account, j.Name, "run %s is %s and was not begun", e.RunID, e.State)
		}
		if policy, known := l.policies[j.Name]; known {
			l.judgeEffects(j.Name, e, policy)
		}
		if e.Tick != last.Tick || e.Attempt != last.Attempt || e.SID != last.SID || e.Token != last.Token || e.Manual != last.Manual {
			l.violatef(Account, j.Name, "tick %s is not accounted for: run %s is in the history as %s, attempt %d of %s", clockMs(last.Tick),
				e.RunID, clockMs(e.Tick), e.Attempt, e.SID)
			return false
		}
	}
	closed := last.Open() && (rec.RunID != last.RunID || !rec.Open())
	if closed != (len(ended) == 1) {
		l.violatef(Account, j.Name, "tick %s is not accounted for: run %s, %s, has %d new entries in the history", clockMs(last.Tick), last.RunID,
			rec.State, len(ended))
		return false
	}
	if closed && rec.RunID != last.RunID && rec.Tick == last.Tick && rec.Attempt == last.Attempt+1 &&
		(ended[0].State == history.StateOK || ended[0].State == history.StateLost || ended[0].State == history.StateRefused) {
		l.violatef(Claim, j.Name, "attempt %d follows one that is %s", rec.Attempt, ended[0].State)
	}
	return true
}

package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// base is the time up to which every tick is accounted for, or before our first.
func (v View) base() time.Time {
	if v.Record.Watermark == 0 {
		return v.begins()
	}
	return Later(v.begins(), time.UnixMilli(v.Record.Watermark))
}

// horizon is the time up to which ticks may be decided now.
func (v View) horizon() time.Time {
	horizon := v.through(v.Now)
	if v.ends() && v.To.Before(horizon) {
		horizon = v.To
	}
	if v.Gate == nil {
		return horizon
	}
	if decided := v.decided(v.Now); decided.Before(horizon) {
		return decided
	}
	return horizon
}

// Ranges of ticks exclude their start and include their end. They are shifted by a
// nanosecond because an owner's clock may read any time between two milliseconds.
func before(t time.Time) time.Time { return t.Add(-time.Nanosecond) }
func after(t time.Time) time.Time  { return t.Add(time.Nanosecond) }

// first is the first past tick that is not accounted for, or zero.
func (v View) first() time.Time {
	if t := v.nextTick(v.base()); !t.After(v.horizon()) {
		return t
	}
	return time.Time{}
}

// due decides on the past ticks that are not accounted for. It opens the first one
// to be run and records those before it; if no tick is to be run, it records all.
func (v View) due() (plan Plan) {
	if plan = v.formerMissed(); plan.Change {
		return plan
	}
	first := v.first()
	if first.IsZero() {
		return Plan{}
	}
	if plan = v.overlapping(first); plan.Change {
		return plan
	}
	last := first
	if second := v.nextTick(first); !second.IsZero() && !second.After(v.horizon()) {
		last = v.Schedule.Prev(after(v.horizon()))
	}
	run := v.runnable(first, last)
	if run.IsZero() {
		return v.pass(last, v.rows(v.base(), last))
	}
	plan = v.pass(run, nil)
	if run.After(first) {
		plan.Entries = v.rows(v.base(), before(run))
	}
	begun, _ := v.Gate.of(run.UnixMilli())
	v.open(&plan, zkrec.Run{Tick: run.UnixMilli(), Attempt: 1, Passed: begun.at})
	return plan
}

// pass moves the watermark to the given time and records the entries. It drops a
// pending retry, which later ticks replace, but not a rerun that a pause holds back.
func (v View) pass(watermark time.Time, entries []Entry) Plan {
	plan := Plan{Change: true, Record: v.Record, Entries: entries}
	plan.Record.Watermark = watermark.UnixMilli()
	if v.Record.NextAttempt == history.NextRetry {
		plan.Record.NextAttempt, plan.Record.NextAttemptAt = "", 0
	}
	if v.Record.Held.NextAttempt == history.NextRetry {
		plan.Record.Held = zkrec.Held{}
	}
	return plan
}

// runnable returns the first tick between first and last, both included, that is to
// be run, or zero. It walks back from the last one because MaxMisfires, and
// MisfireOnce, count from there.
func (v View) runnable(first, last time.Time) (run time.Time) {
	grace := v.Policy.MisfireGrace
	t := last
	for range job.MaxMisfires {
		late := v.Now.Sub(v.came(t))
		if grace > 0 && late > grace {
			break
		}
		policy := v.Policy.Misfire
		missed, paused := v.missed(v.Due(t))
		switch {
		case !v.mayBegin(t), v.absent(v.Due(t)) && late > OnTime:
			policy = job.MisfireSkip
		case paused:
			policy = missed
		case v.queued(t):
			policy = job.MisfireOnce
		case late <= OnTime:
			policy = job.MisfireAll
		}
		if policy == job.MisfireAll || policy == job.MisfireOnce && run.IsZero() {
			run = t
		}
		if !t.After(first) {
			break
		}
		t = v.Schedule.Prev(t)
	}
	return run
}

// busySince is when the owner's uninterrupted series of runs began: a queued tick
// may have waited for more than one of them.
func (v View) busySince() int64 {
	if v.Record.BusySince != 0 {
		return v.Record.BusySince
	}
	return v.Record.Started
}

// queued reports whether t came during the last run and waits for its end.
func (v View) queued(t time.Time) bool {
	return v.Policy.Overlap == job.OverlapQueue && v.overlapped(t)
}

// overlapped reports whether t came during this owner's last run: one under its
// current token, or one under an earlier token that has not returned yet. Earlier
// runs of the same busy series count as well.
func (v View) overlapped(t time.Time) bool {
	r := v.Record.Run
	ms := v.came(t).UnixMilli()
	own := r.SID == v.SID && (r.Token == v.Token || r.RunID == v.Active)
	return own && ms > v.busySince() && (r.Open() || ms <= r.Ended)
}

// overlapping records the ticks, beginning with first, that are skipped because
// they came during the owner's last run. It makes no difference whether the run is
// still in progress or ended before the owner noticed the tick. If first is older
// than the run, the ticks during the run are decided together with it.
func (v View) overlapping(first time.Time) Plan {
	if v.Policy.Overlap != job.OverlapSkip || !v.overlapped(first) {
		return Plan{}
	}
	until := v.horizon()
	if ended := v.through(time.UnixMilli(v.Record.Ended)); !v.Record.Open() && ended.Before(until) {
		until = ended
	}
	// Ticks in a pause are subject to the pause's policy, not to the overlap policy.
	for p := range v.pauses() {
		if p.Missed != job.MisfireOnce && p.Missed != job.MisfireAll {
			continue
		}
		from := v.through(before(time.UnixMilli(p.Since)))
		if from.Before(first) {
			from = before(first)
		}
		if kept := v.Schedule.Next(from); p.Covers(v.Due(kept)) && !kept.After(until) {
			until = before(kept)
		}
	}
	last := v.Schedule.Prev(after(until))
	if last.Before(first) {
		return Plan{}
	}
	for last.After(first) && !v.overlapped(last) { // it waited for the first shard until the run had ended
		last = v.Schedule.Prev(last)
	}
	return v.pass(last, v.rows(v.base(), last))
}

// formerMissed records as missed the ticks of former schedules that were not
// claimed before they were replaced, up to the last tick of the slot's layout.
func (v View) formerMissed() Plan {
	end := v.Since
	if v.ends() && v.To.Before(end) {
		end = v.To
	}
	if v.Now.Before(end) { // ZooKeeper's clock is ahead, and may have been wrong: what has not come may yet be due
		end = v.Now
	}
	if v.Record.Watermark >= end.UnixMilli() {
		return Plan{}
	}
	var rows []Entry
	until := v.Since
	for _, former := range v.Former {
		from := Later(Later(time.UnixMilli(v.Record.Watermark), former.Since), v.From)
		if end.Before(until) {
			until = end
		}
		if former.MaxRuns > 0 && Runs(v.Record, former.Since) >= former.MaxRuns {
			from = until // it had no tick left
		}
		if former.Schedule != nil && from.Before(until) {
			if row, ok := row(former.Schedule, from, until); ok {
				row.State, row.Reason = history.StateMissed, history.ReasonScheduleChanged
				if v.absent(time.UnixMilli(row.Last())) {
					row.State, row.Reason = history.StateSkipped, history.ReasonAbsent
				}
				rows = append(rows, v.recorded(row))
			}
		}
		if former.Since.Before(until) { // else it was replaced before it began: ZooKeeper's clock has gone back, or was ahead
			until = former.Since
		}
	}
	if len(rows) == 0 {
		return Plan{}
	}
	slices.Reverse(rows) // the oldest first
	return v.pass(end, rows)
}

// rows returns entries that say why the ticks in (from, to] are not run.
// Consecutive ticks with the same reason share an entry.
func (v View) rows(from, to time.Time) (rows []Entry) {
	cuts := []time.Time{from, to}
	changes := []time.Time{
		before(v.OwnedSince), time.UnixMilli(v.busySince()), time.UnixMilli(v.Record.Ended), before(v.delayedSince()),
	}
	for p := range v.pauses() {
		changes = append(changes, before(time.UnixMilli(p.Since)), before(time.UnixMilli(p.Until)))
	}
	for i, change := range changes { // they are times at which ticks are due
		changes[i] = v.through(change)
	}
	changes = append(changes, v.Gate.changes()...)
	for _, cut := range changes {
		if cut.After(from) && cut.Before(to) {
			cuts = append(cuts, cut)
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i := range cuts[1:] {
		e, ok := row(v.Schedule, cuts[i], cuts[i+1])
		if !ok {
			continue
		}
		t := time.UnixMilli(e.Tick)
		due := v.Due(t)
		why, notBegun := v.notBegun(t)
		switch {
		case v.Paused.Covers(due):
			e.State, e.Reason = history.StateSkipped, history.ReasonPaused
		case v.PausedAt(due) != nil:
			e.State, e.Reason = history.StateSkipped, history.ReasonFrozen
		case notBegun:
			e.State, e.Reason, e.Error = why.State, why.Reason, why.Error
		case v.overlapped(t):
			e.State, e.Reason = history.StateSkipped, history.ReasonOverlap
		case v.absent(due):
			e.State, e.Reason = history.StateSkipped, history.ReasonAbsent
		case due.Before(v.OwnedSince):
			e.State, e.Reason = history.StateMissed, history.ReasonNoOwner
		case !v.WaitsSince.IsZero() && !due.Before(v.delayedSince()):
			e.State, e.Reason = history.StateMissed, history.ReasonDelayed
			if v.Limited {
				e.Reason = history.ReasonLimited
			}
		default:
			e.State, e.Reason = history.StateMissed, history.ReasonStalled
		}
		rows = append(rows, v.recorded(e))
	}
	return rows
}

// absent reports whether a tick of a job that runs on every instance came while this one took no
// jobs: it is not this instance's tick.
func (v View) absent(t time.Time) bool { return v.Policy.Everywhere && t.Before(v.OwnedSince) }

// delayedSince is from when on ticks wait because this instance has as many runs in progress as it
// may. The first of them may have been noticed a little late.
func (v View) delayedSince() time.Time { return v.WaitsSince.Add(-OnTime) }

// recorded adds to an entry who wrote it, and when.
func (v View) recorded(e Entry) Entry {
	e.SID, e.Token, e.Ended = v.SID, v.Token, v.Now.UnixMilli()
	return e
}

// row returns one entry for the ticks in (from, to], counted up to MaxCount; ok is
// false if there is no such tick.
func row(s *cronexpr.Schedule, from, to time.Time) (e Entry, ok bool) {
	first := s.Next(from)
	if first.IsZero() || first.After(to) {
		return Entry{}, false
	}
	e.Tick = first.UnixMilli()
	n := 1
	for t := s.Next(first); !t.IsZero() && !t.After(to); t = s.Next(t) {
		n++
		if n == zkrec.MaxCount {
			break
		}
	}
	if n > 1 {
		e.Count, e.To = n, s.Prev(after(to)).UnixMilli()
	}
	return e, true
}

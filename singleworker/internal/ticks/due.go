package ticks

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// base is the time up to which every tick is accounted for, or none of ours.
func (v View) base() time.Time {
	if v.Record.Watermark == 0 {
		return v.begins()
	}
	return later(v.begins(), time.UnixMilli(v.Record.Watermark))
}

// horizon is up to when ticks may be judged now.
func (v View) horizon() time.Time {
	if v.ends() && v.To.Before(v.Now) {
		return v.To
	}
	return v.Now
}

// pauseEnds is when the pause that goes on ends by itself, or zero.
func (v View) pauseEnds() time.Time {
	if v.Paused.Until == 0 {
		return time.Time{}
	}
	return time.UnixMilli(v.Paused.Until)
}

// Ranges of ticks include their end and not their beginning, whereas the time
// of an owner may be anywhere between two milliseconds.
func before(t time.Time) time.Time { return t.Add(-time.Nanosecond) }
func after(t time.Time) time.Time  { return t.Add(time.Nanosecond) }

// first is the first tick that has come and is not accounted for, or zero.
func (v View) first() time.Time {
	if t := v.nextTick(v.base()); !t.After(v.Now) {
		return t
	}
	return time.Time{}
}

// due judges the ticks that have come since the last that is accounted for. It
// opens the first of those that are to be run, and records those before it; or
// records all when none is.
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
	if second := v.nextTick(first); !second.IsZero() && !second.After(v.Now) {
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
	v.open(&plan, zkrec.Run{Tick: run.UnixMilli(), Attempt: 1})
	return plan
}

// pass is the change that accounts for the ticks up to the given time. A retry
// gives way to them; a rerun, which a pause may hold, does not.
func (v View) pass(through time.Time, entries []Entry) Plan {
	plan := Plan{Change: true, Record: v.Record, Entries: entries}
	plan.Record.Watermark = through.UnixMilli()
	if v.Record.NextAttempt == zkrec.NextRetry {
		plan.Record.NextAttempt, plan.Record.NextAttemptAt = "", 0
	}
	return plan
}

// runnable is the first tick from first to last that is to be run; zero when
// none is. It goes back from the last, because how many are run counts from
// there.
func (v View) runnable(first, last time.Time) (run time.Time) {
	grace := v.Policy.MisfireGrace
	t := last
	for range job.MaxMisfires {
		late := v.Now.Sub(t)
		if grace > 0 && late > grace {
			break
		}
		policy := v.Policy.Misfire
		switch {
		case v.Paused.Covers(t):
			policy = v.Paused.Missed
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

// busySince is since when the owner's runs have gone on, as far as ticks wait for
// their end.
func (v View) busySince() int64 {
	if v.Record.BusySince != 0 {
		return v.Record.BusySince
	}
	return v.Record.Started
}

// queued reports whether t came while the last run went on, and was to wait
// for its end.
func (v View) queued(t time.Time) bool {
	return v.Policy.Overlap == job.OverlapQueue && v.overlapped(t)
}

// overlapped reports whether t came while the last run of this owner went on:
// the one under its token, or one of an earlier token that it has not got rid
// of yet. Those that it began before ticks that wait could be run count as well.
func (v View) overlapped(t time.Time) bool {
	r := v.Record.Run
	ms := t.UnixMilli()
	own := r.SID == v.SID && (r.Token == v.Token || r.RunID == v.Active)
	return own && ms > v.busySince() && (r.Open() || ms <= r.Ended)
}

// overlapping records the ticks from first on that are skipped because they
// came during the owner's last run, whether it goes on or has ended meanwhile:
// a run that ends a moment after a tick, or before its owner has noticed the
// tick, makes no difference. When older ticks wait, those during the run are
// judged together with them.
func (v View) overlapping(first time.Time) Plan {
	if v.Policy.Overlap != job.OverlapSkip || !v.overlapped(first) {
		return Plan{}
	}
	until := v.horizon()
	if ended := time.UnixMilli(v.Record.Ended); !v.Record.Open() && ended.Before(until) {
		until = ended
	}
	// The pause, not the overlap, decides over the ticks in it.
	if v.Paused.Missed == job.MisfireOnce || v.Paused.Missed == job.MisfireAll {
		from := time.UnixMilli(v.Paused.Since)
		if from.Before(first) {
			from = first
		}
		if kept := v.Schedule.Next(before(from)); v.Paused.Covers(kept) && !kept.After(until) {
			until = before(kept)
		}
	}
	last := v.Schedule.Prev(after(until))
	if last.Before(first) {
		return Plan{}
	}
	return v.pass(last, v.rows(v.base(), last))
}

// formerMissed records the ticks of a replaced schedule that nobody claimed
// before it was replaced.
func (v View) formerMissed() Plan {
	if v.Former == nil || v.Record.Watermark >= v.Since.UnixMilli() {
		return Plan{}
	}
	from := later(later(time.UnixMilli(v.Record.Watermark), v.FormerSince), v.From)
	row, ok := row(v.Former, from, v.Since)
	if !ok {
		return Plan{}
	}
	row.State, row.Reason = zkrec.TickMissed, zkrec.ReasonScheduleChanged
	return v.pass(v.Since, []Entry{v.recorded(row)})
}

// rows says of the ticks after from and up to the given one why they are not
// run, those in a row for one reason together.
func (v View) rows(from, to time.Time) (rows []Entry) {
	cuts := []time.Time{from, to}
	for _, cut := range []time.Time{
		before(v.OwnedSince),
		before(time.UnixMilli(v.Paused.Since)), before(time.UnixMilli(v.Paused.Until)),
		time.UnixMilli(v.busySince()), time.UnixMilli(v.Record.Ended),
	} {
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
		switch t := time.UnixMilli(e.Tick); {
		case v.Paused.Covers(t):
			e.State, e.Reason = zkrec.TickSkipped, zkrec.ReasonPaused
		case v.overlapped(t):
			e.State, e.Reason = zkrec.TickSkipped, zkrec.ReasonOverlap
		case t.Before(v.OwnedSince):
			e.State, e.Reason = zkrec.TickMissed, zkrec.ReasonNoOwner
		default:
			e.State, e.Reason = zkrec.TickMissed, zkrec.ReasonStalled
		}
		rows = append(rows, v.recorded(e))
	}
	return rows
}

// recorded says who writes an entry, and when.
func (v View) recorded(e Entry) Entry {
	e.SID, e.Token, e.Ended = v.SID, v.Token, v.Now.UnixMilli()
	return e
}

// row counts the ticks after from and up to the given one.
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

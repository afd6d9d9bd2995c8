package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func clockMs(ms int64) string { return clock(time.UnixMilli(ms)) }

// account is the log's evidence about the ticks of one slot, from its creation to its deletion.
type account struct {
	slot    string
	terms   []term // in which the job's ticks are the slot's, by the schedules of the time
	record  zkrec.Tick
	history zkrec.History
	belongs bool                    // to a layout of its job, or did
	born    int64                   // zxid
	claimed int64                   // zxid of the last claim
	endBy   int64                   // zxid; 0 while it lasts
	rows    map[int64][]zkrec.Entry // by tick, of those that were not run
	runs    map[int64][]string      // by tick, the ids of the runs, in the order in which they ended
	ended   map[string]zkrec.Entry  // by run id
	late    map[string]bool         // run ids whose results came when they had been given up
	odd     []string                // what is wrong with the history as such
	begun   time.Time               // when its tick record was created
	first   int64                   // the watermark with which its ticks have begun
	marks   []mark                  // what the watermark was, lately
	alarm   int64                   // the latest tick for which an alarm was raised
	early   map[int64]bool          // ticks that were recorded as not run before their time
	added   []int64                 // ticks of rows that the last change of the history has added

	outcomes
}

// term is a time in which a slot belongs to the layout and has one schedule: the ticks after since,
// up to until.
type term struct {
	since, until int64            // until 0: it lasts
	of           singleworker.Job // whose schedule it is
	sched        *cronexpr.Schedule
	replaced     bool      // by another schedule, or another content of a calendar, not by another layout
	changed      time.Time // when a calendar of it was changed last

	most, claimed int   // ticks that may be claimed, 0 for no limit, and that were
	over          int64 // the last of them: no tick follows
}

// term is the last one.
func (a *account) term() *term { return &a.terms[len(a.terms)-1] }

// leave ends the terms with a layout that is the slot's last. Schedules may have been replaced
// since it was decided how far it goes.
func (a *account) leave(until int64) {
	for len(a.terms) > 1 && a.term().since >= until {
		a.terms = a.terms[:len(a.terms)-1]
	}
	if last := a.term(); last.until == 0 || last.replaced {
		last.until, last.replaced = until, false
	}
}

func (l *ledger) openAccount(slot string, txn *zkdev.Txn, j *swtest.Job) {
	since := j.Spec.ActiveLayout().Since
	if isPart(slot) || j.Spec.Undeleted != nil { // its own is what came after it was made
		since = max(since, j.Tick.Watermark)
	} else if begin := j.Spec.ShardsBegin(zkrec.Complete{}); begin > j.Spec.Since { // the server's clock has gone back
		since = max(since, begin)
	}
	terms, err := l.termsOf(j.Spec, since)
	if err != nil {
		l.violatef(8, slot, txn.Time, "its schedule cannot be read: %v", err)
		return
	}
	l.accounts[slot] = &account{
		slot: slot, record: j.Tick, born: txn.Zxid, begun: txn.Time, first: j.Tick.Watermark,
		belongs: l.model.IsSlot(slot),
		terms:   terms,
		rows:    make(map[int64][]zkrec.Entry), runs: make(map[int64][]string),
		ended: make(map[string]zkrec.Entry), late: make(map[string]bool), early: make(map[int64]bool),
		outcomes: outcomes{make(map[int64]time.Time), make(map[int64]bool)},
	}
}

func (l *ledger) closeAccount(slot string, txn *zkdev.Txn) {
	if acc := l.accounts[slot]; acc != nil {
		acc.endBy = txn.Zxid
		l.closed = append(l.closed, acc)
		delete(l.accounts, slot)
	}
}

// written adds the new entries of a history. One change adds less than the history keeps, so that
// nothing is lost between two of them.
func (a *account) written(h zkrec.History, txn *zkdev.Txn) {
	a.added = nil
	for _, e := range h.Entries {
		if slices.Contains(a.history.Entries, e) {
			continue
		}
		if e.RunID != "" {
			a.ranOrAmended(e)
			a.learn(e.Tick, e, txn.Time)
			continue
		}
		from := e.Tick
		longer := slices.IndexFunc(a.history.Entries, func(old zkrec.Entry) bool {
			return old.RunID == "" && old.Tick == e.Tick && old.Reason == e.Reason
		})
		known := 0
		if longer >= 0 {
			old := a.history.Entries[longer]
			from, known = old.Last()+1, old.Ticks()
		}
		n := 0
		for t := a.next(from - 1); t <= e.Last(); t = a.next(t) {
			a.rows[t], a.added = append(a.rows[t], e), append(a.added, t)
			a.learn(t, e, txn.Time)
			replaced := e.Reason == history.ReasonScheduleChanged && t <= txn.Written.UnixMilli() // at the time that the server gave the next schedule
			a.early[t] = t > txn.Time.UnixMilli() && !replaced
			n++
		}
		if known+n != e.Ticks() {
			a.odd = append(a.odd, "a row from "+clockMs(e.Tick)+" to "+clockMs(e.Last())+" miscounts its ticks")
		}
	}
	a.history = h
}

func (a *account) ranOrAmended(e zkrec.Entry) {
	old, amended := a.ended[e.RunID]
	if !amended && e.Manual == "" {
		a.runs[e.Tick] = append(a.runs[e.Tick], e.RunID)
	}
	if amended && old.State != history.StateInterrupted && old.State != history.StateLost {
		a.odd = append(a.odd, "run "+e.RunID+" was "+string(old.State)+" and is "+string(e.State))
	}
	a.ended[e.RunID], a.late[e.RunID] = e, amended
}

// checkAccounts verifies property 8 by walking the schedules.
func (l *ledger) checkAccounts() {
	all := l.closed
	for _, acc := range l.accounts {
		all = append(all, acc)
	}
	ended := make(map[string]zkrec.Entry)
	open := make(map[string]bool)
	for _, acc := range all {
		l.checkAccount(acc)
		maps.Copy(ended, acc.ended)
		if acc.record.Open() {
			open[acc.record.RunID] = true
		}
	}
	for k := range l.runs {
		run := &l.runs[k]
		e, known := ended[run.ID]
		killed := run.Killed || l.unrecorded[run.ID] || l.diedSoon(run)
		abandoned := e.State == history.StateInterrupted || e.State == history.StateLost
		switch {
		case !known:
			if !open[run.ID] {
				l.violatef(8, run.Job, run.Started, "run %s of %s has no entry in the history", run.ID, clock(run.Tick))
			}
		case run.Err == nil && !run.Killed && e.State != history.StateOK && !(killed && abandoned),
			run.Err != nil && e.State == history.StateOK:
			l.violatef(8, run.Job, run.Started, "run %s returned %v, the history says %s: %s", run.ID, run.Err, e.State, e.Error)
		}
	}
}

// diedSoon reports whether an instance was killed before it could record the result of a run: it
// has hardly sent a heartbeat since. Only time with a connection counts.
func (l *ledger) diedSoon(run *swtest.Run) bool {
	r := l.reignOfPart(run.Job, run.Shard.Index, run.Instance.Name, run.Token)
	return run.Instance.State() == swtest.Killed && r != nil && r.beatsAfter(run.Ended) < beatsOfTwoSessions
}

// checkEntry verifies that an entry of the history belongs to a run.
func (l *ledger) checkEntry(acc *account, id string, e zkrec.Entry) {
	run := l.started[id]
	switch {
	case !l.seen[id]:
		l.violatef(8, acc.slot, time.UnixMilli(e.Tick), "run %s is %s and was never claimed", id, e.State)
	case run == nil && e.Effects != (zkrec.Effects{}) && e.State == history.StateOK:
	case e.Effects != (zkrec.Effects{}):
		l.violatef(8, acc.slot, time.UnixMilli(e.Tick), "run %s is %s, found effects, and its handler was called: %v", id, e.State, run != nil)
	case run == nil && e.State != history.StateInterrupted && e.State != history.StateLost:
		l.violatef(8, acc.slot, time.UnixMilli(e.Tick), "run %s is %s and no handler was called", id, e.State)
	case run != nil && e.NotBegun:
		l.violatef(8, acc.slot, time.UnixMilli(e.Tick), "run %s is not begun, and its handler was called", id)
	case run != nil && (run.Instance.Name != e.SID || run.Token != e.Token || run.Attempt != e.Attempt || run.Tick.UnixMilli() != e.Tick):
		l.violatef(8, acc.slot, time.UnixMilli(e.Tick), "run %s of %s is in the history as %+v", id, run.Instance.Name, e)
	}
}

func (l *ledger) checkAccount(acc *account) {
	for id, e := range acc.ended {
		l.checkEntry(acc, id, e)
	}
	for _, text := range acc.odd {
		l.violatef(8, acc.slot, time.UnixMilli(acc.record.Watermark), "%s", text)
	}
	if !acc.belongs {
		// An instance that does not know yet that a job was canceled and resubmitted repairs the old
		// one. These nodes are deleted again, and nothing may have happened there.
		if acc.record.RunID != "" || len(acc.ended)+len(acc.rows) > 0 {
			l.violatef(8, acc.slot, time.UnixMilli(acc.record.Watermark), "it never was a slot of its job, and is at %+v", acc.record)
		}
		return
	}
	if retired := acc.endBy != 0 && !l.canceled[acc.endBy]; retired && (acc.term().until == 0 || acc.record.Open()) {
		l.violatef(8, acc.slot, time.UnixMilli(acc.record.Watermark), "its nodes were deleted, zxid %d, at %+v", acc.endBy, acc.record)
	}
	until := acc.record.Watermark
	for _, term := range acc.terms {
		if !term.replaced {
			until = max(until, term.until)
		}
	}
	for t := acc.next(0); t <= until; t = acc.next(t) {
		if l.ticks++; isPart(acc.slot) {
			l.atEach++
		}
		l.checkAccountOf(acc, t)
	}
	l.checkRunsOfAlways(acc)
	for tick := range acc.rows {
		l.violatef(8, acc.slot, time.UnixMilli(tick), "a tick beyond %s is said not to have been run", clockMs(acc.record.Watermark))
	}
	for tick := range acc.runs {
		l.violatef(8, acc.slot, time.UnixMilli(tick), "a run of what is no tick, or beyond %s", clockMs(acc.record.Watermark))
	}
}

// next is the slot's first tick later than the given one. A row may span a time in which the slot
// belonged to no layout and was not deleted yet; it does not count those ticks.
func (a *account) next(tick int64) int64 {
	for _, t := range a.terms {
		if t.until != 0 && tick >= t.until || t.over != 0 && tick >= t.over {
			continue
		}
		next := t.sched.Next(time.UnixMilli(max(tick, t.since)))
		if !next.IsZero() && (t.until == 0 || next.UnixMilli() <= t.until) && (t.over == 0 || next.UnixMilli() <= t.over) {
			return next.UnixMilli()
		}
	}
	return math.MaxInt64
}

// checkAccountOf verifies the fate of one tick.
func (l *ledger) checkAccountOf(acc *account, tick int64) {
	at := time.UnixMilli(tick)
	rows, runs := acc.rows[tick], acc.runs[tick]
	delete(acc.rows, tick)
	delete(acc.runs, tick)
	current := acc.record.Tick == tick && acc.record.Manual == "" && acc.record.Open()
	fate := audit.Fate{Rows: len(rows), Open: current}
	for _, id := range runs {
		fate.Add(acc.ended[id].Attempt, acc.ended[id].NotBegun)
	}
	if err := fate.Check(); err != nil {
		l.violatef(8, acc.slot, at, "tick %v: %v %v", err, rows, runs)
	}
	if acc.early[tick] && !l.clocksOff {
		l.violatef(8, acc.slot, at, "the tick was given up before its time: %+v", rows)
	}
	for _, row := range rows {
		if row.Reason == history.ReasonAbsent {
			l.checkAbsent(acc, tick, row)
		}
		switch dated := row.Reason == history.ReasonScheduleChanged && l.clocksMayBeOff; { // its change was dated by a clock that is ahead
		case row.Reason == history.ReasonOverlap, row.Reason == history.ReasonPaused, row.Reason == history.ReasonFrozen, dated:
		case isOfParents(row) && !l.couldRun(acc, tick):
		case l.isCalm(acc.slot, at) && !acc.early[tick]:
			l.violatef(8, acc.slot, at, "nothing was amiss, and the tick was not run: %+v", row)
		}
	}
	attempt := 1
	for k, id := range runs {
		e := acc.ended[id]
		last := k == len(runs)-1 && !current
		// A run that was given up may turn out to have succeeded, too late.
		done := e.State == history.StateOK && !acc.late[id] || e.State == history.StateLost
		if e.Attempt != attempt || done && !last {
			l.violatef(8, acc.slot, at, "attempt %d, run %d of %d, is number %d: %s", attempt, k+1, len(runs), e.Attempt, e.State)
		}
		if !e.NotBegun || acc.late[id] { // what is known too late to be not begun has counted
			attempt++
		}
	}
}

// isCalm reports whether a tick came when its slot had had the same owner for a while and nothing
// happened.
func (l *ledger) isCalm(slot string, tick time.Time) bool {
	due := tick
	if j := l.model.Jobs[slot]; j != nil {
		due = tick.Add(j.Spec.Job.Jitter)
	}
	return tick.After(l.calmFrom) && l.calmTo.Sub(due) > settledWithin && slices.ContainsFunc(l.reigns[slot], func(r *reign) bool {
		// A dead owner's reign lasts as long as nobody may take the slot, or has room.
		return r.at.Before(l.calmFrom) && (r.endBy == 0 || !r.end.Before(l.calmTo)) && r.beatsAfter(l.calmFrom) > 0
	})
}

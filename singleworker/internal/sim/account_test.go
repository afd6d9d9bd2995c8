package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func clockMs(ms int64) string { return clock(time.UnixMilli(ms)) }

// account is what the log says of the ticks of one job, from its submission to its end.
type account struct {
	job     string
	since   time.Time // of the schedule
	sched   *cronexpr.Schedule
	record  zkrec.Tick
	history zkrec.History
	gone    bool
	rows    map[int64][]zkrec.Entry // by tick, of those that were not run
	runs    map[int64][]string      // by tick, the ids of the runs, in the order in which they ended
	ended   map[string]zkrec.Entry  // by run id
	late    map[string]bool         // run ids whose results came when they had been given up
	odd     []string                // what is wrong with the history as such
}

func (l *ledger) openAccount(job string, txn *zkdev.Txn, spec zkrec.Spec) {
	if l.accounts[job] != nil {
		return // the simulation changes no schedules
	}
	sched, err := cronexpr.Parse(spec.Schedule, time.UTC)
	if err != nil {
		l.violatef(8, job, txn.Time, "its schedule cannot be read: %v", err)
		return
	}
	l.accounts[job] = &account{
		job: job, sched: sched, since: time.UnixMilli(spec.Since),
		rows: make(map[int64][]zkrec.Entry), runs: make(map[int64][]string),
		ended: make(map[string]zkrec.Entry), late: make(map[string]bool),
	}
}

func (l *ledger) closeAccount(job string) {
	if acc := l.accounts[job]; acc != nil {
		acc.gone = true
		l.closed = append(l.closed, acc)
		delete(l.accounts, job)
	}
}

// written takes in what is new in a history. One change adds less than the history keeps, so
// that nothing is lost between two of them.
func (a *account) written(h zkrec.History) {
	for _, e := range h.Entries {
		if slices.Contains(a.history.Entries, e) {
			continue
		}
		if e.RunID != "" {
			a.ranOrAmended(e)
			continue
		}
		from := time.UnixMilli(e.Tick)
		longer := slices.IndexFunc(a.history.Entries, func(old zkrec.Entry) bool {
			return old.RunID == "" && old.Tick == e.Tick && old.Reason == e.Reason
		})
		known := 0
		if longer >= 0 {
			old := a.history.Entries[longer]
			from, known = a.sched.Next(time.UnixMilli(old.Last())), old.Ticks()
		}
		n := 0
		for t := from; !t.IsZero() && t.UnixMilli() <= e.Last(); t = a.sched.Next(t) {
			a.rows[t.UnixMilli()] = append(a.rows[t.UnixMilli()], e)
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
	if amended && old.State != zkrec.RunInterrupted && old.State != zkrec.RunLost {
		a.odd = append(a.odd, "run "+e.RunID+" was "+old.State+" and is "+e.State)
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
	gone := make(map[string]bool)
	for _, acc := range all {
		l.checkAccount(acc)
		maps.Copy(ended, acc.ended)
		open[acc.record.RunID] = acc.record.Open()
		gone[acc.job] = gone[acc.job] || acc.gone
	}
	for _, run := range l.runs {
		e, known := ended[run.ID]
		killed := run.Killed || l.unrecorded[run.ID] || run.Instance.State() == swtest.Killed
		abandoned := e.State == zkrec.RunInterrupted || e.State == zkrec.RunLost
		switch {
		case !known:
			if !open[run.ID] && !gone[run.Job] {
				l.violatef(8, run.Job, run.Started, "run %s of %s has no entry in the history", run.ID, clock(run.Tick))
			}
		case run.Err == nil && !run.Killed && e.State != zkrec.RunOK && !(killed && abandoned),
			run.Err != nil && e.State == zkrec.RunOK:
			l.violatef(8, run.Job, run.Started, "run %s returned %v, the history says %s: %s", run.ID, run.Err, e.State, e.Error)
		}
	}
}

func (l *ledger) checkAccount(acc *account) {
	for _, text := range acc.odd {
		l.violatef(8, acc.job, acc.since, "%s", text)
	}
	for t := acc.sched.Next(acc.since); !t.IsZero() && t.UnixMilli() <= acc.record.Through; t = acc.sched.Next(t) {
		l.ticks++
		tick := t.UnixMilli()
		rows, runs := acc.rows[tick], acc.runs[tick]
		delete(acc.rows, tick)
		delete(acc.runs, tick)
		current := acc.record.Tick == tick && acc.record.Manual == "" && acc.record.Open()
		if len(rows) > 1 || len(rows) == 1 && len(runs) > 0 || len(rows)+len(runs) == 0 && !current {
			l.violatef(8, acc.job, t, "tick is in %d rows and %d runs: %v %v", len(rows), len(runs), rows, runs)
		}
		for k, id := range runs {
			e := acc.ended[id]
			last := k == len(runs)-1 && !current
			// One that was given up may turn out to have been successful, too late.
			done := e.State == zkrec.RunOK && !acc.late[id] || e.State == zkrec.RunLost
			if e.Attempt != k+1 || done && !last {
				l.violatef(8, acc.job, t, "attempt %d of %d is number %d: %s", k+1, len(runs), e.Attempt, e.State)
			}
		}
	}
	for tick := range acc.rows {
		l.violatef(8, acc.job, time.UnixMilli(tick), "a tick beyond %s is said not to have been run", clockMs(acc.record.Through))
	}
	for tick := range acc.runs {
		l.violatef(8, acc.job, time.UnixMilli(tick), "a run of what is no tick, or beyond %s", clockMs(acc.record.Through))
	}
}

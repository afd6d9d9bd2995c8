package ticks_test

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// checker keeps everything that was written and compares it with the ticks of the schedules and
// with the handlers' own account. It reads only the Watermark of the records; attempts and failures
// it counts itself.
type checker struct {
	w     *world
	ticks int // accounted for
	ran   int // of them, run
	eras  []era

	fates   map[int64]*fate  // of each tick
	manuals map[string]*fate // of each request
	open    *fate            // the run that has no result
	owed    []owed           // what is to be run again
	written map[string]bool  // run ids
	endless map[string]bool  // of them, those of a job that always ran when they began
	// The handlers' own account, by run id: the result, once it was written.
	handlers map[string]history.State

	come come

	always    int // of the ticks, the runs of the job while it always ran
	following following
	moved     bool // the run that ends was ended for the job to move

	head   string // the request at the head of the queue
	passed int    // ticks started since it has been there
}

// era is the time of a schedule.
type era struct {
	schedule *cronexpr.Schedule
	since    int64
	from     int64 // Watermark when it began
}

// fate is the outcome of a tick, or of a request.
type fate struct {
	row                 bool // it is in a row of ticks that were not run
	runID               string
	attempts            int
	state               history.State   // of the last attempt
	interrupted, failed int             // attempts
	notBegun            bool            // the last one: its handler was not called
	final               bool            // its result was
	effects             history.Effects // that were found by the last one
}

// passedOver is the fate of ticks that are in a row.
var passedOver = &fate{row: true, final: true}

func newChecker(w *world) *checker {
	return &checker{
		w: w, fates: make(map[int64]*fate), manuals: make(map[string]*fate),
		written: make(map[string]bool), endless: make(map[string]bool), handlers: make(map[string]history.State),
	}
}

func (c *checker) newEra() {
	c.eras = append(c.eras, era{schedule: c.w.schedule(), since: c.w.spec.Since, from: c.w.record.Watermark})
}

// walk calls f with each tick after from and up to to.
func walk(s *cronexpr.Schedule, from, to int64, f func(tick int64)) {
	for t := s.Next(time.UnixMilli(from)); !t.IsZero() && t.UnixMilli() <= to; t = s.Next(t) {
		f(t.UnixMilli())
	}
}

// applied records a change that was written.
func (c *checker) applied(p ticks.Plan, now int64) {
	before := c.w.record
	if p.Record.Watermark < before.Watermark {
		c.w.failf("(1) Watermark goes back from %s to %s", clock(before.Watermark), clock(p.Record.Watermark))
	}
	for _, e := range p.Entries {
		if e.RunID == "" {
			c.row(e, p.Record.Watermark, now)
		} else {
			c.result(e)
			c.follow(e)
		}
	}
	switch {
	case p.Opens && c.open != nil:
		c.w.failf("(4) %s is opened while %s has no result", p.Record.RunID, c.open.runID)
	case p.Opens:
		c.claim(p.Record)
	case p.Record.Open() != (c.open != nil):
		c.w.failf("(5) the record and the history do not agree on whether a run is in progress")
	}
	c.owes(p, now)
}

// owed is a run that is to be repeated.
type owed struct {
	zkrec.Held
	fate *fate
}

// owes verifies that a run that is to be repeated stays on record until it is, or is given up for a
// reason.
func (c *checker) owes(p ticks.Plan, now int64) {
	r := p.Record
	c.owed = slices.DeleteFunc(c.owed, func(o owed) bool {
		switch {
		case o.is(zkrec.Held{Run: r.Run, NextAttempt: r.NextAttempt}), o.is(r.Held):
			return false
		case p.Opens && r.Tick == o.Tick && r.Manual == o.Manual, c.w.schedule().Always():
		case o.NextAttempt == history.NextRetry && r.Watermark > c.w.record.Watermark:
		case o.NextAttempt == history.NextRerun && !c.mayRerun(o.Run, o.fate, o.fate.interrupted, now):
		default:
			c.w.failf("(11) the %s of %s is forgotten: %s", o.NextAttempt, subject(o.Run), say(c.w.record, p))
		}
		return true
	})
	if r.NextAttempt != "" && r.NextAttempt != c.w.record.NextAttempt {
		f := c.fates[r.Tick]
		if r.Manual != "" {
			f = c.manuals[r.Manual]
		}
		c.owed = append(c.owed, owed{zkrec.Held{Run: r.Run, NextAttempt: r.NextAttempt}, f})
	}
}

// is reports whether a record has it.
func (o owed) is(held zkrec.Held) bool {
	return o.Tick == held.Tick && o.Manual == held.Manual && o.NextAttempt == held.NextAttempt
}

// row checks an entry about ticks that are not run.
func (c *checker) row(e ticks.Entry, through, now int64) {
	s := c.w.schedule()
	if e.Reason == history.ReasonScheduleChanged {
		f := c.w.spec.Former
		for f.Former != nil && e.Tick <= f.Since {
			f = f.Former
		}
		s = c.w.parsed(*f)
	}
	var ticks []int64
	walk(s, e.Tick-1, max(e.Tick, e.To), func(tick int64) {
		ticks = append(ticks, tick)
		c.account(tick, passedOver)
	})
	n := len(ticks)
	switch {
	case n == 0 || ticks[0] != e.Tick || ticks[n-1] != max(e.Tick, e.To):
		c.w.failf("(3) a row from %s to %s, which are not both ticks", clock(e.Tick), clock(e.To))
	case e.Count != min(n, zkrec.MaxCount) && (e.Count != 0 || n != 1):
		c.w.failf("(3) a row from %s to %s says that it has %d ticks, it has %d", clock(e.Tick), clock(e.To), e.Count, n)
	case max(e.Tick, e.To) > through:
		c.w.failf("(2) a row up to %s, accounted for is up to %s", clock(e.To), clock(through))
	case e.Ended != now || e.SID == "" || e.Token == 0:
		c.w.failf("(5) entry does not say who wrote it, or when: %+v", e)
	}
}

// account records the fate of a tick.
func (c *checker) account(tick int64, f *fate) {
	if c.fates[tick] != nil {
		c.w.failf("(2) %s is accounted for a second time", clock(tick))
	}
	c.fates[tick] = f
	c.ticks++
}

// claim checks a run that is opened.
func (c *checker) claim(r ticks.Record) {
	f := c.fates[r.Tick]
	if r.Manual != "" {
		f = c.manuals[r.Manual]
	}
	switch {
	case f != nil && (f.row || f.final || !again(f.state)):
		c.w.failf("(2) %s is claimed again after it was %q, final: %v", subject(r.Run), f.state, f.final)
		return
	case f == nil:
		f = &fate{}
		if r.Manual != "" {
			c.manuals[r.Manual] = f
		} else {
			c.ran++
			c.account(r.Tick, f)
			if c.w.schedule().Always() {
				c.always++
			} else {
				c.wait()
			}
		}
	}
	before := f.state
	f.attempts++
	if c.endless[r.RunID] = r.Manual == "" && c.w.schedule().Always(); c.endless[r.RunID] {
		c.following.at = 0
	} else {
		c.following = following{}
	}
	notBegun := f.notBegun
	f.runID, f.state, f.notBegun, c.open = r.RunID, history.StateRunning, false, f
	if r.Attempt != f.attempts || r.Failures != f.failed {
		c.w.failf("(5) attempt %d of %s, %d failed, says %+v", f.attempts, subject(r.Run), f.failed, r)
	}
	if r.Manual == "" && r.Tick > r.Watermark {
		c.w.failf("(2) %s is claimed, accounted for is up to %s", clock(r.Tick), clock(r.Watermark))
	}
	policy := c.w.spec.Job.WithDefaults()
	if before == history.StateInterrupted && !notBegun && f.interrupted >= mostAttempts(policy) {
		c.w.failf("(6) %s was interrupted %d times, max_attempts is %d", subject(r.Run), f.interrupted, policy.MaxAttempts)
	}
}

// wait counts the ticks that start while a request waits.
func (c *checker) wait() {
	if len(c.w.requests) == 0 {
		return
	}
	if head := c.w.requests[0].ID; c.head != head {
		c.head, c.passed = head, 0
	}
	if c.passed++; c.passed > 5 {
		c.w.failf("(10) %s still waits after %d ticks were started", c.head, c.passed)
	}
}

// again reports whether a run that ended so may be followed by another one.
func again(state history.State) bool {
	return state == history.StateInterrupted || state == history.StateFailed || state == history.StateTimedOut
}

// result checks an entry about a run.
func (c *checker) result(e ticks.Entry) {
	f := c.open
	if f == nil || f.runID != e.RunID {
		c.w.failf("(5) a result of %s, which is not open", e.RunID)
		return
	}
	c.open = nil
	if c.written[e.RunID] {
		c.w.failf("(5) a second result of %s", e.RunID)
	}
	c.written[e.RunID] = true
	f.state = e.State
	attempts := f.attempts
	switch {
	case f.notBegun:
		f.attempts-- // it does not count
	case e.State == history.StateInterrupted:
		f.interrupted++
	case e.State == history.StateFailed, e.State == history.StateTimedOut:
		f.failed++
	}
	if e.NotBegun != f.notBegun {
		c.w.failf("(7) the handler of %s was not called: %v, the history says %v", e.RunID, f.notBegun, e.NotBegun)
	}
	switch told := c.handlers[e.RunID]; {
	case told != "" && told != e.State:
		c.w.failf("(7) the handler of %s saw %s, the history says %s", e.RunID, told, e.State)
	case told == "" && e.State != history.StateInterrupted && e.State != history.StateLost:
		c.w.failf("(7) the handler of %s returned no result, the history says %s", e.RunID, e.State)
	}
	if found := f.effects != (history.Effects{}); found != (e.Effects.Value() == f.effects && found) || !found && e.Effects != (zkrec.Effects{}) {
		c.w.failf("(7) the effects found of %s are %+v, the history says %+v", e.RunID, f.effects, e.Effects.Value())
	}
	if e.Attempt != attempts || e.Started == 0 || e.Ended == 0 || e.SID == "" {
		c.w.failf("(5) attempt %d: %+v", attempts, e)
	}
}

// started records a handler that starts.
func (c *checker) started(h *handler) {
	if _, known := c.handlers[h.run.RunID]; known || c.open == nil || c.open.runID != h.run.RunID {
		c.w.failf("(7) %s is started, and is not the claim", h.run.RunID)
	}
	c.handlers[h.run.RunID] = ""
}

// ended checks a handler's result and the plan that End made of it.
func (c *checker) ended(of ticks.Job, h *handler, p ticks.Plan) {
	c.handlers[h.run.RunID], c.open.notBegun, c.open.effects = h.outcome.State, h.outcome.NotBegun, h.outcome.Effects
	if c.endless[h.run.RunID] {
		c.open.final, c.moved = true, h.outcome.Moved
		c.judgeFollowing(of, p)
		return
	}
	f := c.open
	f.final = h.outcome.Final
	policy := of.Policy.WithDefaults()
	want, at := "", h.outcome.Ended
	switch {
	case h.outcome.Final:
	case h.outcome.NotBegun:
		want = history.NextRerun
	case h.outcome.State == history.StateInterrupted:
		if f.interrupted+1 < mostAttempts(policy) {
			want = history.NextRerun
		}
	case again(h.outcome.State) && h.run.Manual == "" && f.failed < policy.Retries:
		wait := max(policy.Backoff, 0) << f.failed
		at = at.Add(wait)
		free := true // no tick until the retry would start
		walk(of.Schedule, max(h.run.Tick, c.w.spec.Since), at.UnixMilli(), func(int64) { free = false })
		if free {
			want = history.NextRetry
		}
	}
	got := p.Record.NextAttempt
	if got != want || got != "" && p.Record.NextAttemptAt != at.UnixMilli() {
		c.w.failf("(6) after %s: again %q at %s, want %q at %s", h.outcome.State, got, clock(p.Record.NextAttemptAt), want, clock(at.UnixMilli()))
	}
	if done := h.run.Manual != "" && want == ""; done != (p.Request != "") {
		c.w.failf("(6) the request %q is done: %v, the plan removes %q", h.run.Manual, done, p.Request)
	}
}

// settled is called when the owner has nothing more to do for now.
func (c *checker) settled(v ticks.View) {
	if c.w.steps%4 != 0 {
		return // it is not cheap
	}
	tick, again := ticks.Overdue(v.Job, v.Record, v.Active != "", v.Now)
	switch {
	case !tick.IsZero() && !lasts(v.Paused, v.Now.UnixMilli()):
		c.w.failf("(9) nothing is left to do, but %s is overdue", clock(tick.UnixMilli()))
	case !again.IsZero() && !again.After(v.Now):
		c.w.failf("(9) Overdue wants to be called again at %s, in the past", again)
	}
}

// end checks the account of all ticks after everything is done.
func (c *checker) end() {
	total := 0
	for i, e := range c.eras {
		to := c.w.record.Watermark
		if i+1 < len(c.eras) {
			next := c.eras[i+1]
			to = max(next.from, next.since)
		}
		walk(e.schedule, max(e.since, e.from), to, func(tick int64) {
			total++
			switch f := c.fates[tick]; {
			case f == nil:
				c.w.failf("(2) nothing is known of %s", time.UnixMilli(tick).UTC())
			case !f.row && (f.state == "" || f.state == history.StateRunning):
				c.w.failf("(2) %s has no result", time.UnixMilli(tick).UTC())
			}
		})
	}
	if total+c.always != c.ticks {
		c.w.failf("(2) the schedules had %d ticks, %d are accounted for", total, c.ticks-c.always)
	}
	for id := range c.handlers {
		if !c.written[id] {
			c.w.failf("(7) the history has no entry for %s", id)
		}
	}
}

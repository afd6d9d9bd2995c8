package ticks_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The oracle derives from the policies the fate of each tick alone, and then checks a plan against
// it; the package goes by ranges and by the latest tick.

// A want is the policies' wish for a tick that nobody has claimed yet.
type want string

const (
	toRun   want = "run"
	latest  want = "run unless a later one is" // misfire once, queued
	passed  want = "not run"
	overlay want = "not run, it came during a run"
)

func within(p *zkrec.Pause, ms int64) bool {
	return p != nil && p.Since != 0 && p.Since <= ms && (p.Until == 0 || ms < p.Until)
}

// lasts reports whether a pause that is known is not over, by the owner's clock, which may not have
// come to its beginning.
func lasts(p *zkrec.Pause, now int64) bool { return p != nil && (p.Until == 0 || now < p.Until) }

// keeps reports whether a tick is in a pause that wants it to be run at its end.
func keeps(p *zkrec.Pause, tick int64) bool {
	return within(p, tick) && (p.Missed == job.MisfireOnce || p.Missed == job.MisfireAll)
}

// busy is when the owner's uninterrupted series of runs began.
func busy(r ticks.Record) int64 { return cmp.Or(r.BusySince, r.Started) }

// during reports whether a tick came during the last run of this owner, or those
// before it that ticks have waited for since.
func during(v ticks.View, tick int64) bool {
	r := v.Record
	if r.SID != v.SID || r.Token != v.Token && r.RunID != v.Active || tick <= busy(r) {
		return false
	}
	return r.State == history.StateRunning || tick <= r.Ended
}

// ask is the wish for the nth last tick.
func ask(v ticks.View, tick int64, n int) want {
	policy := v.Policy.WithDefaults()
	age := v.Now.Sub(time.UnixMilli(tick))
	switch {
	case policy.MisfireGrace > 0 && age > policy.MisfireGrace, n > job.MaxMisfires:
		return passed
	case within(v.Paused, tick):
		return byName(v.Paused.Missed)
	case during(v, tick) && policy.Overlap == job.OverlapQueue:
		return latest
	case age <= ticks.OnTime:
		return toRun
	}
	return byName(policy.Misfire)
}

func byName(misfire job.MisfirePolicy) want {
	switch misfire {
	case job.MisfireOnce:
		return latest
	case job.MisfireAll:
		return toRun
	case job.MisfireSkip:
	}
	return passed
}

// wants is the decision for each of some ticks in order: run, or passed.
func wants(v ticks.View, due []int64) []want {
	out := make([]want, len(due))
	running := false // one that is later
	for i := len(due) - 1; i >= 0; i-- {
		out[i] = ask(v, due[i], len(due)-i)
		if out[i] == latest {
			out[i] = toRun
			if running {
				out[i] = passed
			}
		}
		running = running || out[i] == toRun
	}
	// Those that came during a run are skipped at once if none is older.
	for i, tick := range due {
		if v.Policy.WithDefaults().Overlap != job.OverlapSkip || !during(v, tick) || keeps(v.Paused, tick) {
			break
		}
		out[i] = overlay
	}
	return out
}

// reason is why a tick is not run.
func reason(v ticks.View, tick int64) (state history.State, reason history.Reason) {
	switch {
	case within(v.Paused, tick):
		return history.StateSkipped, history.ReasonPaused
	case during(v, tick):
		return history.StateSkipped, history.ReasonOverlap
	case time.UnixMilli(tick).Before(v.OwnedSince):
		return history.StateMissed, history.ReasonNoOwner
	}
	return history.StateMissed, history.ReasonStalled
}

// judge verifies that a plan agrees with the policies.
func (c *checker) judge(v ticks.View, p ticks.Plan) {
	if !p.Wake.IsZero() && !p.Wake.After(v.Now) {
		c.w.failf("(9) to wake at %s, in the past", p.Wake)
	}
	known := p.Request == ""
	for _, r := range v.Requests {
		known = known || r.ID == p.Request
	}
	if !known {
		c.w.failf("(6) the plan removes %q, which is no request", p.Request)
	}
	if !p.Change && (p.Opens || len(p.Entries) > 0 || p.Request != "") {
		c.w.failf("(6) a plan without a change: %+v", p)
	}
	if p.Opens {
		c.judgeBusy(v, p)
	}
	r := v.Record
	again := r.Again()
	switch {
	case v.Active != "":
		if p.Opens {
			c.w.failf("(4) a run is opened while %s is in progress", v.Active)
		}
		switch {
		case r.RunID != v.Active:
			c.wantNothing(p)
		case lasts(v.Paused, v.Now.UnixMilli()):
			c.judgeFormer(v, p)
		default:
			c.judgeTicks(v, p, true)
		}
	case r.Open() && (c.endless[r.RunID] || v.Schedule.Always() && r.Manual == ""):
		c.judgeLostAlways(v, p)
	case r.Open():
		c.judgeLost(v, p)
	case v.Schedule.Always():
		c.judgeAlways(v, p)
	case again.NextAttempt != "" && (again.Manual != "" || !lasts(v.Paused, v.Now.UnixMilli())):
		c.judgeAgain(v, p)
	case lasts(v.Paused, v.Now.UnixMilli()):
		if _, former := c.pending(v); len(former) > 0 {
			c.judgeFormer(v, p)
		} else {
			c.judgeRequests(v, p)
		}
	default:
		c.judgeTicks(v, p, false)
	}
}

// judgeBusy verifies that a run that is opened takes over the ticks that wait for
// the end of the one before.
func (c *checker) judgeBusy(v ticks.View, p ticks.Plan) {
	var want int64
	older := false // one from before the row of runs still waits: what comes meanwhile waits behind it
	due, _ := c.pending(v)
	for _, tick := range due {
		idle := tick > v.Record.Ended && v.Now.UnixMilli()-tick > ticks.OnTime.Milliseconds()
		switch {
		case v.Policy.WithDefaults().Overlap != job.OverlapQueue || tick <= p.Record.Watermark:
		case tick <= busy(v.Record):
			older = true
		case during(v, tick):
			want = busy(v.Record)
		case idle && !older: // nothing ran when it came, which ends the row of runs
			want = 0
		}
	}
	if p.Record.BusySince != want {
		c.w.failf("(6) busy since %s; the plan: %s, and says %s", clock(want), say(v.Record, p), clock(p.Record.BusySince))
	}
}

func (c *checker) wantNothing(p ticks.Plan) {
	if p.Change {
		c.w.failf("(6) nothing is to be done; the plan: %s", say(c.w.record, p))
	}
}

// mayRerun reports whether an interrupted run of f's is made once more; it goes by the checker's
// own counts.
func (c *checker) mayRerun(r zkrec.Run, f *fate, interrupted int, now int64) bool {
	policy := c.w.spec.Job.WithDefaults()
	asked := r.Manual == ""
	for _, request := range c.w.requests {
		asked = asked || request.ID == r.Manual
	}
	age := now - r.Tick
	resolved := asks(policy) && interrupted > 0
	wanted := f.notBegun || interrupted < mostAttempts(policy)
	return asked && !f.final && wanted &&
		(policy.MisfireGrace == 0 || age <= policy.MisfireGrace.Milliseconds() || resolved)
}

func asks(policy ticks.Policy) bool {
	return policy.Interrupted == "ask" || policy.Interrupted == "ask_or_skip"
}

// mostAttempts is how many attempts may be interrupted before nothing follows.
func mostAttempts(policy ticks.Policy) int {
	switch {
	case policy.Interrupted == job.InterruptedSkip:
		return 0
	case asks(policy):
		return policy.MaxAttempts + 1
	}
	return policy.MaxAttempts
}

// judgeLost is about a run whose owner is gone.
func (c *checker) judgeLost(v ticks.View, p ticks.Plan) {
	rerun := c.mayRerun(v.Record.Run, c.open, c.open.interrupted+1, v.Now.UnixMilli())
	waits := rerun && v.Record.Manual == "" && lasts(v.Paused, v.Now.UnixMilli())
	state := history.StateLost
	if rerun {
		state = history.StateInterrupted
	}
	if len(p.Entries) != 1 || p.Entries[0].RunID != v.Record.RunID || p.Entries[0].State != state ||
		p.Opens != (rerun && !waits) || waits != (p.Record.NextAttempt == history.NextRerun) {
		c.w.failf("(6) the run is %s, made again: %v, after a pause: %v; the plan: %s", state, rerun, waits, say(v.Record, p))
	}
	c.sameTick(v, v.Record.Run, p)
}

// sameTick verifies that a run that is opened is of the tick of r.
func (c *checker) sameTick(v ticks.View, r zkrec.Run, p ticks.Plan) {
	if p.Opens && (p.Record.Tick != r.Tick || p.Record.Manual != r.Manual) || p.Record.Watermark != v.Record.Watermark {
		c.w.failf("(6) it is about %s up to %s; the plan: %s", subject(r), clock(v.Record.Watermark), say(v.Record, p))
	}
}

// judgeAgain is about a run that is to be made once more.
func (c *checker) judgeAgain(v ticks.View, p ticks.Plan) {
	r := v.Record.Again()
	f := c.fates[r.Tick]
	if r.Manual != "" {
		f = c.manuals[r.Manual]
	}
	due, former := c.pending(v)
	now := v.Now.UnixMilli()
	switch waiting := now >= r.Ended && now < r.NextAttemptAt; {
	case r.NextAttempt == history.NextRerun:
		if rerun := c.mayRerun(r.Run, f, f.interrupted, now); rerun != p.Opens || !p.Change || len(p.Entries) > 0 {
			c.w.failf("(6) rerun: %v; the plan: %s", rerun, say(v.Record, p))
		}
		c.sameTick(v, r.Run, p)
	case len(due)+len(former) > 0:
		c.judgeTicks(v, p, false)
		if p.Record.Again().NextAttempt != "" {
			c.w.failf("(6) a retry after the next tick; the plan: %s", say(v.Record, p))
		}
	case waiting:
		c.wantNothing(p)
		if !p.Wake.Equal(time.UnixMilli(r.NextAttemptAt)) {
			c.w.failf("(6) a retry at %s; the plan: %s", clock(r.NextAttemptAt), say(v.Record, p))
		}
	default:
		if !p.Opens || len(p.Entries) > 0 {
			c.w.failf("(6) a retry now; the plan: %s", say(v.Record, p))
		}
		c.sameTick(v, r.Run, p)
	}
}

// pending are the ticks that nobody has accounted for, and the former schedule's, if it is known.
func (c *checker) pending(v ticks.View) (due, former []int64) {
	since := v.Since.UnixMilli()
	until := since
	for _, f := range v.Former {
		to := min(until, v.Now.UnixMilli()) // what has not come is missed when it has
		walk(f.Schedule, max(f.Since.UnixMilli(), v.Record.Watermark), to, func(tick int64) { former = append(former, tick) })
		until = min(until, f.Since.UnixMilli())
	}
	return c.come.between(v.Schedule, max(since, v.Record.Watermark), v.Now.UnixMilli()), former
}

// come are the ticks of a schedule after a time and up to another one. Most of
// them are the same as when they were last asked for.
type come struct {
	schedule *cronexpr.Schedule
	from, to int64
	due      []int64
	next     int64 // the first after to
}

func (c *come) between(s *cronexpr.Schedule, from, to int64) []int64 {
	if c.schedule != s || from < c.from || to < c.to {
		*c = come{schedule: s, from: from, to: from, next: from}
	}
	if to >= c.next {
		walk(s, c.to, to, func(tick int64) { c.due = append(c.due, tick) })
		c.to, c.next = to, math.MaxInt64
		if next := s.Next(time.UnixMilli(to)); !next.IsZero() {
			c.next = next.UnixMilli()
		}
	}
	c.from = from
	for len(c.due) > 0 && c.due[0] <= from {
		c.due = c.due[1:]
	}
	return c.due
}

// judgeFormer verifies that a plan does nothing, or is about a former schedule.
func (c *checker) judgeFormer(v ticks.View, p ticks.Plan) {
	_, former := c.pending(v)
	through := min(v.Since.UnixMilli(), v.Now.UnixMilli())
	if len(former) == 0 {
		c.wantNothing(p)
		return
	}
	wrong := func(e ticks.Entry) bool {
		return e.State != history.StateMissed || e.Reason != history.ReasonScheduleChanged
	}
	if p.Opens || len(p.Entries) == 0 || p.Record.Watermark != through || slices.ContainsFunc(p.Entries, wrong) {
		c.w.failf("(6) %d due of the former schedule; the plan: %s", len(former), say(v.Record, p))
	}
	if rerun := v.Record.Again().NextAttempt == history.NextRerun; rerun != (p.Record.Again().NextAttempt != "") {
		c.w.failf("(6) a rerun waits: %v; the plan: %s", rerun, say(v.Record, p))
	}
}

// judgeTicks checks a decision on ticks that are due, or on requests if no tick is.
func (c *checker) judgeTicks(v ticks.View, p ticks.Plan, running bool) {
	due, former := c.pending(v)
	switch {
	case len(former) > 0:
		c.judgeFormer(v, p)
		return
	case len(due) == 0 && running:
		c.wantNothing(p)
		return
	case len(due) == 0:
		c.judgeRequests(v, p)
		return
	case p.Opens && p.Record.Manual != "":
		c.judgeTurn(v, p, due[0])
		return
	}
	want := wants(v, due)
	n := 0 // how many are passed over
	for n < len(want) && want[n] == overlay {
		n++
	}
	overlaps := n > 0
	if running && !overlaps {
		c.wantNothing(p)
		return
	}
	for !overlaps && n < len(want) && want[n] != toRun {
		n++
	}
	opens := !overlaps && n < len(want)
	through := due[max(n-1, 0)]
	if opens {
		through = due[n]
	}
	if !p.Change || p.Opens != opens || opens && (p.Record.Tick != through || p.Record.Attempt != 1) || p.Record.Watermark != through {
		c.w.failf("(6) %d due to pass over, run %v, up to %s; the plan: %s", n, opens, clock(through), say(v.Record, p))
		return
	}
	c.judgeRows(v, p, due[:n])
}

// judgeRows verifies the reasons of ticks that are passed over.
func (c *checker) judgeRows(v ticks.View, p ticks.Plan, due []int64) {
	for _, e := range p.Entries {
		for len(due) > 0 && due[0] >= e.Tick && due[0] <= max(e.Tick, e.To) {
			if state, reason := reason(v, due[0]); e.State != state || e.Reason != reason {
				c.w.failf("(6) %s is %s(%s); the plan: %s", clock(due[0]), state, reason, say(v.Record, p))
			}
			due = due[1:]
		}
	}
	if len(due) > 0 {
		c.w.failf("(6) nothing is said of %s; the plan: %s", clock(due[0]), say(v.Record, p))
	}
}

// judgeRequests is about the time when nothing else is to be done.
func (c *checker) judgeRequests(v ticks.View, p ticks.Plan) {
	if len(v.Requests) == 0 {
		c.wantNothing(p)
		return
	}
	r := p.Record
	if !p.Opens || r.Manual != v.Requests[0].ID || r.Attempt != 1 || r.Watermark != v.Record.Watermark || len(p.Entries) > 0 {
		c.w.failf("(6) %s is to be run; the plan: %s", v.Requests[0].ID, say(v.Record, p))
	}
}

// judgeTurn is about a request that goes before a tick.
func (c *checker) judgeTurn(v ticks.View, p ticks.Plan, first int64) {
	c.judgeRequests(v, p)
	if last := v.Record.Run; last.Manual != "" || first > last.Ended {
		c.w.failf("(10) %s goes before %s, which did not wait for a run", p.Record.Manual, clock(first))
	}
}

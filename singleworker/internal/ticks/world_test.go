package ticks_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// world is one job and its successive owners. Its times are
// Unix milliseconds; each instance reads them with its own offset.
type world struct {
	simkit.Story
	rng *rand.Rand
	profile
	mutant mutant

	now   int64
	steps int
	quiet bool // no more faults

	// The content of ZooKeeper.
	spec     zkrec.Spec
	record   ticks.Record
	requests []ticks.Request
	tokens   int64

	schedules map[string]*cronexpr.Schedule // by their text and zone
	offsets   map[string]int64              // of the instances' clocks
	owner     *owner                        // nil: nobody
	adoptAt   int64                         // when somebody does if nobody owns it
	faultAt   int64
	ids       int

	check *checker
}

// owner is an instance while it owns the job.
type owner struct {
	sid    string
	token  int64
	since  int64 // on its clock
	active *handler
	alarm  int64 // of the schedule's next tick, or of a plan's Wake
	hangs  int64 // it does nothing until then
}

// handler is a run in progress.
type handler struct {
	run      zkrec.Run
	outcome  ticks.Outcome
	endsAt   int64
	writesAt int64 // when its result is written
	ended    bool
	dies     bool // it kills its owner
}

func newWorld(seed uint64, m mutant) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), mutant: m,
		schedules: make(map[string]*cronexpr.Schedule), offsets: make(map[string]int64),
	}
	w.profile = w.newProfile()
	if !m.sound() {
		w.maxTicks, w.maxSteps = w.maxTicks/10, w.maxSteps/10 // what it breaks shows soon, or not in this seed
	}
	w.now = w.start.UnixMilli()
	w.spec = zkrec.Spec{Job: job.Job{Schedule: w.texts[0].Schedule, TimeZone: w.texts[0].TimeZone}, Since: w.now}
	w.spec.Job = w.newPolicy()
	w.check = newChecker(w)
	w.check.newEra()
	w.adoptAt, w.faultAt = w.now+w.upTo(10_000), w.now+w.upTo(60*w.period())
	w.Profile = fmt.Sprintf("%+v %+v", w.profile, w.spec)
	return w
}

func (w *world) upTo(n int64) int64     { return w.rng.Int64N(max(n, 1)) }
func (w *world) percent(p float64) bool { return w.rng.Float64()*100 < p }
func (w *world) clock(sid string) int64 { return w.now + w.offsets[sid] }
func (w *world) id(kind string) string  { w.ids++; return fmt.Sprint(kind, w.ids) }
func pick[T any](w *world, of ...T) T   { return of[w.rng.IntN(len(of))] }
func (w *world) done() bool {
	return w.Failure() != "" || w.check.ticks >= w.maxTicks || w.steps >= w.maxSteps
}
func (w *world) current() zkrec.Former {
	return zkrec.Former{Schedule: w.spec.Job.Schedule, TimeZone: w.spec.Job.TimeZone}
}
func (w *world) schedule() *cronexpr.Schedule { return w.parsed(w.current()) }

// parsed is a schedule given by its text.
func (w *world) parsed(f zkrec.Former) *cronexpr.Schedule {
	key := f.TimeZone + " " + f.Schedule
	if s := w.schedules[key]; s != nil {
		return s
	}
	zone, err := time.LoadLocation(f.TimeZone)
	if err != nil {
		panic(err)
	}
	s, err := cronexpr.Parse(f.Schedule, zone)
	if err != nil {
		panic(err)
	}
	w.schedules[key] = s
	return s
}

// period is about how often the job fires now, from a second to an hour.
func (w *world) period() int64 {
	first := w.schedule().Next(time.UnixMilli(w.now))
	second := w.schedule().Next(first)
	if first.IsZero() || second.IsZero() {
		return 60_000
	}
	return min(max(second.Sub(first).Milliseconds(), 1000), 3_600_000)
}

func (w *world) logf(format string, args ...any) {
	if w.Recording() {
		w.Note("", time.UnixMilli(w.now).UTC().Format("01-02 15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// failf notes the first violation.
func (w *world) failf(format string, args ...any) {
	w.Fail("", time.UnixMilli(w.now).UTC().Format(time.RFC3339Nano)+": "+fmt.Sprintf(format, args...))
}

// job is the spec as an owner reads it.
func (w *world) job() ticks.Job {
	policy := w.spec.Job
	job := ticks.Job{Schedule: w.schedule(), Since: time.UnixMilli(w.spec.Since), Policy: &policy}
	for f := w.spec.Former; f != nil; f = f.Former {
		job.Former = append(job.Former, ticks.Former{Schedule: w.parsed(*f), Since: time.UnixMilli(f.Since)})
	}
	job.Paused = w.spec.Switch.Paused
	return job
}

func (w *world) view() ticks.View {
	o := w.owner
	v := ticks.View{
		Job: w.job(), Record: w.record, Now: time.UnixMilli(w.clock(o.sid)),
		SID: o.sid, Token: o.token, OwnedSince: time.UnixMilli(o.since), RunID: w.id("run"),
		Requests: w.requests,
	}
	if o.active != nil {
		v.Active = o.active.run.RunID
	}
	return v
}

// Run runs until the end of the noise, then until everything is done.
func (w *world) Run() {
	for !w.done() {
		w.step()
	}
	w.endFaults()
	for rested := w.now + 3*w.period(); w.Failure() == "" && (w.now < rested || w.unsettled() != ""); {
		w.step()
		if w.steps > 2*w.maxSteps {
			w.failf("(8) never comes to rest: %s", w.unsettled())
		}
	}
	if w.Failure() == "" {
		w.check.end()
	}
}

// unsettled names the work that remains.
func (w *world) unsettled() string {
	switch last := w.schedule().Prev(time.UnixMilli(w.now + 1)); {
	case w.owner == nil || w.owner.active != nil || w.record.Open():
		return "a run is in progress"
	case w.record.Again().NextAttempt != "":
		return "a " + w.record.Again().NextAttempt + " is to be made"
	case len(w.requests) > 0:
		return "a request waits"
	case last.UnixMilli() > max(w.record.Watermark, w.spec.Since):
		return "a tick is not accounted for"
	}
	return ""
}

// step goes to the next time at which something happens.
func (w *world) step() {
	w.steps++
	next := w.now + 3_600_000
	if !w.quiet {
		next = min(next, w.faultAt)
	}
	switch o := w.owner; {
	case o == nil:
		next = min(next, w.adoptAt)
	case o.active == nil:
		next = min(next, o.alarm)
	case o.active.ended:
		next = min(next, o.active.writesAt)
	default:
		next = min(next, o.alarm, o.active.endsAt)
	}
	if w.owner != nil {
		next = max(next, min(w.owner.hangs, w.faultAt))
	}
	w.now = max(w.now, next)
	if !w.quiet && w.now >= w.faultAt {
		w.fault()
		w.faultAt = w.now + w.upTo(w.faultEvery*w.period())
	}
	if w.owner == nil && w.now >= w.adoptAt {
		w.adopt(pick(w, "a", "b", "c"))
	}
	if w.owner == nil || w.now < w.owner.hangs {
		return
	}
	w.progress()
	if w.owner != nil {
		w.decide()
	}
}

// adopt makes an instance the owner.
func (w *world) adopt(sid string) {
	w.tokens++
	w.owner = &owner{sid: sid, token: w.tokens, since: w.clock(sid)}
	w.logf("%s adopts the job, token %d, its clock says %s", sid, w.tokens, clock(w.clock(sid)))
	w.now += pick[int64](w, 0, 1, 2, 50)
}

// leave leaves the job without an owner for a while.
func (w *world) leave(d int64) {
	w.logf("nobody owns the job for %v", time.Duration(d)*time.Millisecond)
	w.owner, w.adoptAt = nil, w.now+d
}

// progress ends the owner's run and writes its result.
func (w *world) progress() {
	o := w.owner
	h := o.active
	if h == nil || w.now < h.endsAt {
		return
	}
	if h.dies {
		w.logf("%s kills %s", h.run.RunID, o.sid)
		w.leave(w.downtime())
		return
	}
	if !h.ended {
		h.ended, h.outcome.Ended = true, time.UnixMilli(w.clock(o.sid))
		w.logf("%s ends: %s", h.run.RunID, h.outcome.State)
	}
	if w.now < h.writesAt {
		return
	}
	o.active = nil
	if w.record.RunID != h.run.RunID || !w.record.Open() {
		w.logf("the result of %s comes too late", h.run.RunID)
		return
	}
	job := w.job()
	broken := job
	w.mutant.onJob(&broken)
	plan := ticks.End(broken, w.record, h.outcome)
	w.mutant.onEnd(&plan)
	w.check.ended(job, h, plan)
	w.apply(plan, w.clock(o.sid))
}

// decide carries out plans until nothing is left to do.
func (w *world) decide() {
	atOnce := 8 + len(w.requests) // each may be withdrawn
	for n := 0; w.owner != nil && w.Failure() == ""; n++ {
		if n == atOnce {
			w.failf("(8) does not settle")
		}
		v := w.view()
		broken := v
		w.mutant.onView(&broken)
		plan := ticks.Next(broken)
		w.mutant.onPlan(v, &plan)
		if !w.mutant.unjudged {
			w.check.judge(v, plan)
		}
		if !plan.Change {
			w.await(plan.Wake)
			w.check.settled(v)
			return
		}
		if !w.quiet && w.percent(0.2) {
			w.logf("the change of %s is lost: %s", w.owner.sid, say(w.record, plan))
			w.leave(pick[int64](w, 0, 0, 3000))
			return
		}
		w.apply(plan, v.Now.UnixMilli())
		if plan.Opens {
			w.begin(plan.Record.Run)
		}
	}
}

// await sets the alarm: a moment after the next tick, or at the time of a plan.
func (w *world) await(wake time.Time) {
	o := w.owner
	now := w.clock(o.sid)
	o.alarm = w.now + 3_600_000
	if next := w.schedule().Next(time.UnixMilli(now)); !next.IsZero() {
		o.alarm = w.now + next.UnixMilli() - now
		if w.percent(w.lateness) {
			o.alarm += pick(w, w.upTo(5), w.upTo(100), w.upTo(3000))
		}
	}
	if !wake.IsZero() {
		o.alarm = min(o.alarm, w.now+wake.UnixMilli()-now)
	}
}

// apply writes a plan; clock is its writer's.
func (w *world) apply(p ticks.Plan, clock int64) {
	if w.Recording() {
		w.logf("  %s", say(w.record, p))
	}
	w.check.applied(p, clock)
	w.record = p.Record
	if w.percent(1) {
		read, err := zkrec.ParseTick(p.Record.Encode(), time.Time{})
		read.Schema = 0
		if err != nil || read != w.record {
			w.failf("(7) the record is %+v, and %+v when it was read: %v", w.record, read, err)
		}
	}
	if p.Request == "" {
		return
	}
	for i, r := range w.requests {
		if r.ID == p.Request {
			w.requests = append(w.requests[:i:i], w.requests[i+1:]...)
			return
		}
	}
}

// asks has a run ask for the effects of the attempts before it, if it is to: that may end it.
func (w *world) asks(h *handler) {
	policy, f := w.spec.Job.WithDefaults(), w.check.open
	if !asks(policy) || f == nil || f.interrupted == 0 || h.run.Always || h.run.RunID != f.runID {
		return
	}
	tooOld := policy.MisfireGrace > 0 && h.run.Started-h.run.Tick > policy.MisfireGrace.Milliseconds()
	last := f.interrupted >= policy.MaxAttempts
	asks, ifAbsent, ifUnknown := h.run.Asks(policy)
	if wants := !tooOld && !last; !asks || ifAbsent != wants || ifUnknown != (wants && policy.Interrupted == "ask") {
		w.failf("(6) %s asks: %v; its handler is called if its effects are not there: %v, and if nobody knows: %v; too old: %v, last: %v", h.run.RunID,
			asks, ifAbsent, ifUnknown, tooOld, last)
	}
	switch {
	case w.percent(30):
		h.dies, h.outcome = false, ticks.Outcome{State: history.StateOK, Effects: history.Effects{RunID: "earlier", At: time.UnixMilli(w.now).UTC()}}
	case tooOld || last, policy.Interrupted == "ask_or_skip" && w.percent(20):
		h.dies, h.outcome = false, ticks.Outcome{State: history.StateInterrupted, Error: "not run again", NotBegun: true, Final: true}
	}
}

// begin starts a run.
func (w *world) begin(run zkrec.Run) {
	if !w.quiet && w.percent(0.2) {
		w.logf("%s dies before it starts %s", w.owner.sid, run.RunID)
		w.leave(w.downtime())
		return
	}
	h := &handler{run: run, endsAt: w.now + w.duration()}
	h.writesAt = h.endsAt + pick[int64](w, 0, 0, 1, 20)
	h.outcome.State = history.StateOK
	switch {
	case w.quiet:
	case w.percent(w.failing):
		h.outcome = ticks.Outcome{State: pick(w, history.StateFailed, history.StateTimedOut), Error: "it failed", Final: w.percent(5)}
	case w.schedule().Always() && w.percent(5):
		h.outcome = ticks.Outcome{State: history.StateInterrupted, Error: "it moves", Moved: true}
	case w.percent(2):
		h.outcome = ticks.Outcome{State: history.StateInterrupted, Error: "not begun", NotBegun: true, Final: w.percent(10)}
	case w.percent(w.interrupting):
		h.outcome = ticks.Outcome{State: history.StateInterrupted, Error: "stopped", Final: w.percent(50)}
	case w.percent(w.killing):
		h.dies = true
	case w.percent(1):
		h.writesAt += w.upTo(3 * w.period())
	}
	w.asks(h)
	if w.owner.active != nil {
		w.failf("(4) %s begins while %s is in progress", run.RunID, w.owner.active.run.RunID)
	}
	w.owner.active = h
	w.check.started(h)
}

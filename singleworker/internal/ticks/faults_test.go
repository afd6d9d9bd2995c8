package ticks_test

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// profile is the random configuration of a seed.
type profile struct {
	start    time.Time
	texts    []zkrec.Former // the schedules that the job has at times
	maxTicks int
	maxSteps int

	faultEvery int64   // at most so many periods
	slow       float64 // percent of runs that last longer than a moment
	slowest    int64   // how many periods they last at most
	// Percent of runs.
	failing, interrupting, killing float64
	lateness                       float64 // percent of ticks that the owner is late for
	jumps                          bool    // clocks jump
	changes                        bool    // schedule and policy are changed
}

// Every seed has at least one of the frequent, so that there are many ticks.
var (
	frequent = []string{"* * * * * ?", "*/5 * * * * ?", "@every 1500ms", "@every 7s", "0,1,2,30 * * * * ?", "*/20 * 0-22 * * ?"}
	rare     = []string{"0 * * * * ?", "*/10 * * * *", "0 */20 1-3 * * ?", "30 2 * * *", "@hourly", "0 15 10 ? * MON-FRI", "@every 90m"}
	zones    = []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}
)

// Before clocks change, in Berlin and in New York, and at any other time.
var starts = []string{
	"2026-03-28T22:00:00Z", "2026-10-24T22:30:00Z", "2026-11-01T04:00:00Z", "2026-04-04T14:00:00Z", "2026-06-30T23:50:00Z",
}

func (w *world) newProfile() profile {
	start, err := time.Parse(time.RFC3339, pick(w, starts...))
	if err != nil {
		panic(err)
	}
	p := profile{
		start:      start.Add(time.Duration(w.upTo(3_600_000)) * time.Millisecond),
		maxTicks:   25_000,
		maxSteps:   40_000,
		faultEvery: pick[int64](w, 10, 60, 300),
		slow:       pick(w, 0, 2, 20, 80.0),
		slowest:    pick[int64](w, 1, 2, 5, 30),
		failing:    pick(w, 0, 5, 30.0), interrupting: pick(w, 0, 1, 5.0), killing: pick(w, 0, 0.5, 20.0),
		lateness: pick(w, 2, 20, 100.0),
		jumps:    w.percent(40), changes: w.percent(60),
	}
	zone := pick(w, zones...)
	p.texts = []zkrec.Former{
		{Schedule: pick(w, frequent...), TimeZone: zone},
		{Schedule: pick(w, rare...), TimeZone: zone},
		{Schedule: pick(w, append(frequent, rare...)...), TimeZone: pick(w, zones...)},
	}
	if w.percent(40) {
		p.changes, p.texts = true, append(p.texts, zkrec.Former{Schedule: "@always", TimeZone: zone})
	}
	return p
}

func (w *world) newPolicy() ticks.Policy {
	p := ticks.Policy{
		Schedule: w.spec.Job.Schedule, TimeZone: w.spec.Job.TimeZone,

		Misfire:     pick(w, "", job.MisfireOnce, job.MisfireSkip, job.MisfireAll, job.MisfireAll),
		Interrupted: pick(w, "", job.InterruptedRerun, job.InterruptedSkip, job.InterruptedAsk, job.InterruptedAskOrSkip),
		MaxAttempts: pick(w, 0, 0, 1, 5),
		Overlap:     pick(w, "", job.OverlapSkip, job.OverlapQueue),
		Retries:     pick(w, 0, 1, 4),
		Backoff:     pick(w, 0, job.NoBackoff, 10*time.Millisecond, 10*time.Second),
		AlarmAfter:  pick(w, 0, 5*time.Second, job.NoAlarm),
	}
	if w.percent(30) {
		p.MisfireGrace = time.Duration(w.upTo(100*1000)) * time.Millisecond
	}
	return p
}

// duration is how long a run lasts.
func (w *world) duration() int64 {
	if w.quiet || !w.percent(w.slow) {
		return pick[int64](w, 0, 1, 10)
	}
	return w.upTo(w.slowest * w.period())
}

// downtime is how long the job has no owner.
func (w *world) downtime() int64 {
	if w.quiet {
		return 0
	}
	switch n := w.rng.IntN(200); {
	case n < 120:
		return w.upTo(3000)
	case n < 160:
		return w.upTo(20 * w.period())
	case n < 199:
		return w.upTo(300 * w.period())
	}
	return w.upTo(15_000 * min(w.period(), 20_000))
}

// operator is the time on the clock of the operator who changes the job.
func (w *world) operator() int64 {
	clock := w.now + pick(w, 0, 0, 0, w.upTo(2000), -w.upTo(2000), w.upTo(100_000))
	if w.percent(20) {
		clock -= clock % 1000 // perhaps a tick's time
	}
	return clock
}

// fault injects a random fault.
func (w *world) fault() {
	switch w.rng.IntN(13) {
	case 0, 1:
		w.die()
	case 2:
		w.stop()
	case 3:
		w.replaceOwner()
	case 4:
		w.regain()
	case 5:
		if w.owner != nil {
			w.owner.hangs = w.now + pick(w, w.upTo(3000), w.upTo(20*w.period()))
			w.logf("%s hangs until %s", w.owner.sid, clock(w.owner.hangs))
		}
	case 6:
		w.jump()
	case 7:
		w.replaceSchedule()
	case 8:
		if w.changes {
			w.spec.Job = w.newPolicy()
			w.logf("the policy is %+v", w.spec.Job)
		}
	case 9, 10:
		w.pauseOrResume()
	case 11:
		for range pick(w, 1, 1, 2) {
			w.requests = append(slices.Clip(w.requests), ticks.Request{
				ID: w.id("ask"), Request: zkrec.Request{Kind: zkrec.RequestRun, At: time.UnixMilli(w.operator())},
			})
		}
		w.logf("%d requests wait", len(w.requests))
	case 12:
		if len(w.requests) > 0 && w.percent(20) {
			w.logf("%s is withdrawn", w.requests[0].ID)
			w.requests = w.requests[1:]
		}
	}
	if w.owner != nil {
		w.owner.alarm = w.now // whatever it was, its owner takes notice
	}
}

func (w *world) die() {
	if w.owner != nil {
		w.logf("%s dies", w.owner.sid)
		w.leave(w.downtime())
	}
}

// stop interrupts the current run and gives the job up.
func (w *world) stop() {
	if w.owner == nil {
		return
	}
	w.logf("%s stops", w.owner.sid)
	if h := w.owner.active; h != nil && !h.ended && !h.dies {
		h.endsAt, h.writesAt = w.now, w.now
		if w.percent(70) {
			h.outcome = ticks.Outcome{State: history.StateInterrupted, Error: "its instance stopped"}
		}
		w.progress()
	}
	w.leave(pick(w, 0, 10, w.upTo(2000)))
}

// replaceOwner has another instance take over at once; a run of the one before
// has its result refused.
func (w *world) replaceOwner() {
	if w.owner != nil {
		w.logf("%s loses the job", w.owner.sid)
		w.owner = nil
		w.adopt(pick(w, "a", "b", "c"))
	}
}

// regain is an owner that loses the job and gets it back, with a run that does
// not end at once.
func (w *world) regain() {
	if w.owner == nil {
		return
	}
	before := w.owner
	w.adopt(before.sid)
	w.owner.active = before.active
	if h := before.active; h != nil && !h.ended && !h.dies {
		h.outcome = ticks.Outcome{State: history.StateInterrupted, Error: "its lease was lost"}
	}
}

// jump changes the clock of an instance: ahead or back, for long, or to the
// right time.
func (w *world) jump() {
	if !w.jumps {
		return
	}
	sid := pick(w, "a", "b", "c")
	w.offsets[sid] = pick(w, 0, 0, w.upTo(3000), -w.upTo(3000), w.upTo(50*w.period()), -w.upTo(50*w.period()), w.upTo(400*w.period()))
	w.logf("the clock of %s says %s", sid, clock(w.clock(sid)))
}

func (w *world) replaceSchedule() {
	if !w.changes {
		return
	}
	text := pick(w, w.texts...)
	if w.percent(10) {
		text.Schedule = "@at " + time.UnixMilli(w.now+w.upTo(100_000)).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	if now := w.current(); text.Schedule == now.Schedule && text.TimeZone == now.TimeZone || w.formerUnaccounted() == zkrec.MaxFormer {
		return
	}
	next := w.spec
	next.Job.Schedule, next.Job.TimeZone = text.Schedule, text.TimeZone
	w.spec = next.Over(w.spec)
	w.spec = w.spec.WrittenAt(time.UnixMilli(w.now)) // when the server writes it
	w.check.newEra()
	w.logf("the schedule is %s in %q since %s, and was %+v", text.Schedule, text.TimeZone, clock(w.spec.Since), *w.spec.Former)
}

// formerUnaccounted counts the former schedules that may have ticks without an account.
func (w *world) formerUnaccounted() (n int) {
	for f, until := w.spec.Former, w.spec.Since; f != nil && w.record.Watermark < until; f, until = f.Former, f.Since {
		n++
	}
	return n
}

func (w *world) pauseOrResume() {
	now := w.operator()
	p := w.spec.Switch.Paused
	upTo := w.upTo(50 * w.period())
	if w.percent(20) {
		upTo -= upTo % 1000
	}
	switch {
	case p != nil && (p.Until == 0 || p.Until > now):
		resumed := *p
		resumed.Until = now
		w.spec.Switch.Paused = &resumed
		w.logf("resumed at %s", clock(now))
	default:
		w.spec.Switch.Paused = &zkrec.Pause{Since: now, Missed: pick(w, "", "", job.MisfireSkip, job.MisfireOnce, job.MisfireAll)}
		if w.percent(50) {
			w.spec.Switch.Paused.Until = now + upTo
		}
		w.logf("paused: %+v", *w.spec.Switch.Paused)
	}
}

// endFaults ends all faults.
func (w *world) endFaults() {
	w.quiet = true
	w.logf("faults end")
	w.adoptAt = w.now
	clear(w.offsets)
	if p := w.spec.Switch.Paused; p != nil && (p.Until == 0 || p.Until > w.now) {
		w.spec.Switch.Paused = &zkrec.Pause{Since: p.Since, Until: w.now, Missed: p.Missed}
	}
	if w.owner != nil {
		w.owner.hangs, w.owner.alarm = 0, w.now
	}
}

package ticks_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// pausingFaults are how often something may still happen.
type pausingFaults struct{ pauses, asks, withdrawals, crashes int8 }

// pausing is one state of a job with a tick every four seconds, its successive owners, and
// operators who pause it for six seconds, ask for runs, and withdraw that. A run lasts no time, or
// two seconds.
type pausing struct {
	left    pausingFaults
	forgets bool // a breach: a manual run takes the place of what a pause holds back

	now      int64 // seconds
	spec     zkrec.Spec
	version  int32 // of the spec
	parsed   map[int64]ticks.Job
	record   ticks.Record
	changes  int32 // of the record
	requests []ticks.Request

	token  int64
	diedAt int64 // 0: the owner lives
	active string
	began  int64
	write  *ticks.Plan // under way
	on     int32       // the version of the spec that it was decided on

	owed    int64 // the tick whose run was interrupted, and is to be repeated
	failure string
}

const (
	pausingPass int8 = iota
	pausingAdopt
	pausingDecide
	pausingArrive
	pausingFinish
	pausingCrash
	pausingPause
	pausingAsk
	pausingWithdraw
)

func newPausing(f pausingFaults, policy job.InterruptedPolicy, forgets bool) pausing {
	spec := zkrec.Spec{Job: job.Job{Name: "job", Schedule: "*/4 * * * * ?", Interrupted: policy}, Since: tinyStart * 1000}
	return pausing{
		left: f, forgets: forgets, now: tinyStart + 1, spec: spec, parsed: make(map[int64]ticks.Job),
		record: ticks.Record{Watermark: tinyStart * 1000}, token: 1,
	}
}

func (w pausing) Failure() string           { return w.failure }
func (w *pausing) paused() bool             { return w.spec.Switch.Paused.Covers(time.Unix(w.now, 0)) }
func (w *pausing) failf(f string, a ...any) { w.failure = fmt.Sprintf(f, a...) }

// Settled reports whether no request waits, nothing is to be repeated, and every past tick has an
// account.
func (w pausing) Settled() bool {
	return w.owed == 0 && len(w.requests) == 0 && w.record.Again().NextAttempt == "" && w.record.Watermark >= (w.now-8)*1000
}

func (w *pausing) view() ticks.View {
	var pause int64
	if w.spec.Switch.Paused != nil {
		pause = w.spec.Switch.Paused.Since
	}
	of, known := w.parsed[pause]
	if !known {
		spec := w.spec
		var err error
		if of, err = ticks.JobOf("group", &spec, ticks.Version{}); err != nil {
			panic(err)
		}
		w.parsed[pause] = of
	}
	return ticks.View{
		Job: of, Record: w.record, Now: time.Unix(w.now, 0).UTC(), SID: fmt.Sprint("i", w.token), Token: w.token,
		OwnedSince: time.Unix(tinyStart, 0), RunID: fmt.Sprint("run", w.changes), Active: w.active, Requests: w.requests,
	}
}

func (w pausing) Moves() (moves []simkit.Move) {
	can := func(kind int8, when bool) {
		if when {
			moves = append(moves, simkit.Move{Kind: kind, Passes: kind == pausingPass})
		}
	}
	lives := w.diedAt == 0
	can(pausingAdopt, !lives)
	can(pausingArrive, w.write != nil)
	can(pausingFinish, lives && w.active != "" && w.write == nil && w.began <= w.now-2)
	can(pausingDecide, lives && w.write == nil && ticks.Next(w.view()).Change)
	can(pausingPass, len(moves) == 0 || !lives && w.now < w.diedAt+2)
	can(pausingFinish, w.active != "" && w.write == nil && w.began == w.now)
	can(pausingCrash, lives && w.left.crashes > 0)
	can(pausingPause, w.left.pauses > 0 && !w.paused())
	can(pausingAsk, w.left.asks > 0)
	can(pausingWithdraw, w.left.withdrawals > 0 && len(w.requests) > 0)
	return moves
}

func (w pausing) After(m simkit.Move) pausing {
	switch m.Kind {
	case pausingPass:
		w.now++
	case pausingAdopt:
		w.token, w.diedAt = w.token+1, 0
	case pausingDecide:
		plan := ticks.Next(w.view())
		w.write, w.on = &plan, w.version
	case pausingFinish:
		plan := ticks.End(w.view().Job, w.record, ticks.Outcome{State: history.StateOK, Ended: time.Unix(w.now, 0)})
		w.active = ""
		w.commit(plan)
	case pausingArrive:
		plan := *w.write
		w.write = nil
		asked := !plan.Opens || plan.Record.Manual == "" ||
			slices.ContainsFunc(w.requests, func(r ticks.Request) bool { return r.ID == plan.Record.Manual })
		if w.on == w.version && asked {
			w.commit(plan)
		}
	case pausingCrash:
		w.left.crashes--
		w.diedAt, w.active, w.write = w.now, "", nil
	case pausingPause:
		w.left.pauses--
		w.spec.Switch.Paused = &zkrec.Pause{Since: w.now * 1000, Until: (w.now + 6) * 1000}
		w.version++
	case pausingAsk:
		r := zkrec.Request{Kind: zkrec.RequestRun, At: time.Unix(w.now, 0).UTC()}
		w.requests = append(slices.Clone(w.requests), ticks.Request{ID: fmt.Sprint("ask", w.left.asks), Request: r})
		w.left.asks--
	case pausingWithdraw:
		w.left.withdrawals--
		w.requests = w.requests[1:]
	}
	return w
}

// commit writes a plan, and judges it.
func (w *pausing) commit(plan ticks.Plan) {
	old, next := w.record, plan.Record
	manual := plan.Opens && next.Manual != ""
	if manual && w.forgets {
		next.Held = zkrec.Held{}
	}
	w.record, w.changes = next, w.changes+1
	w.requests = slices.DeleteFunc(slices.Clone(w.requests), func(r ticks.Request) bool { return r.ID == plan.Request })
	if plan.Opens {
		w.active, w.began = next.RunID, w.now
	}
	if next.Watermark < old.Watermark {
		w.failf("(1) Watermark goes back")
	}
	for t := (old.Watermark/4000 + 1) * 4000; t <= next.Watermark; t += 4000 {
		accounts := 0
		for _, e := range plan.Entries {
			if e.RunID == "" && e.Tick <= t && t <= e.Last() {
				accounts++
			}
		}
		if plan.Opens && !manual && next.Attempt == 1 && next.Tick == t {
			accounts++
		}
		if accounts != 1 {
			w.failf("(2) tick %d has %d accounts", t, accounts)
		}
	}
	result := func(e ticks.Entry) bool { return e.RunID == old.RunID }
	if old.Open() && next.RunID != old.RunID && !slices.ContainsFunc(plan.Entries, result) {
		w.failf("(3) the run of %d has no result", old.Tick)
	}
	w.judgeRepetition(plan)
	if plan.Opens && !manual && w.paused() {
		w.failf("(5) tick %d is run in a pause", next.Tick)
	}
}

// judgeRepetition verifies that a tick whose run was interrupted is run again, or recorded as lost
// if the policy says so.
func (w *pausing) judgeRepetition(plan ticks.Plan) {
	for _, e := range plan.Entries {
		switch again := w.spec.Job.Interrupted == job.InterruptedRerun; {
		case e.Manual != "" || e.State != history.StateInterrupted && e.State != history.StateLost:
		case again != (e.State == history.StateInterrupted):
			w.failf("(4) the run of %d is %s", e.Tick, e.State)
		case again:
			w.owed = e.Tick
		}
	}
	r := w.record
	switch again := r.Again(); {
	case plan.Opens && r.Manual == "" && r.Tick == w.owed:
		w.owed = 0
	case w.owed == 0, again.NextAttempt == history.NextRerun && again.Manual == "" && again.Tick == w.owed, r.Held.Tick == w.owed:
	default:
		w.failf("(4) tick %d was interrupted, and is not repeated", w.owed)
	}
}

func (w pausing) Tell(m simkit.Move) string {
	names := strings.Fields("pass adopt decide arrive finish crash pause ask withdraw")
	then := w.After(m)
	return fmt.Sprintf("%2d %s: %s", w.now-tinyStart, names[m.Kind], say(w.record, ticks.Plan{Change: true, Record: then.record}))
}

// Key has times relative to now.
func (w pausing) Key(to []byte) []byte {
	n := func(n int64) { to = binary.AppendVarint(to, n) }
	at := func(ms int64) {
		if ms == 0 {
			n(-100)
			return
		}
		n(max(ms/1000-w.now, -16))
	}
	run := func(r zkrec.Run) {
		at(r.Tick)
		at(r.Started)
		at(r.Ended)
		n(int64(r.Attempt))
		n(min(w.token-r.Token, 4))
		to = append(to, string(r.State)+r.Manual+"."...)
	}
	record := func(r ticks.Record) {
		at(r.Watermark)
		run(r.Run)
		run(r.Held.Run)
		at(r.NextAttemptAt)
		at(r.Held.NextAttemptAt)
		at(r.BusySince)
		to = append(to, r.NextAttempt+"."+r.Held.NextAttempt+"."...)
	}
	to = append(to, byte(w.left.pauses), byte(w.left.asks), byte(w.left.withdrawals), byte(w.left.crashes), byte(w.now%4))
	if w.spec.Switch.Paused != nil {
		at(w.spec.Switch.Paused.Since)
	}
	record(w.record)
	for _, r := range w.requests {
		to = append(to, r.ID...)
		at(r.At.UnixMilli())
	}
	at(w.diedAt * 1000)
	at(w.began * 1000)
	at(w.owed)
	to = append(to, fmt.Sprint(w.active == "", w.active == w.record.RunID, w.write == nil)...)
	if w.write != nil {
		record(w.write.Record)
		n(int64(w.version - w.on))
		to = append(to, w.write.Request...)
		n(int64(len(w.write.Entries)))
	}
	return to
}

// TestExplorePausing runs Next and End through every interleaving of a pause, requests, and the
// deaths of owners. It checks, at each change, that
//
//  1. Watermark only grows;
//  2. each tick that it passes is in exactly one entry or claimed;
//  3. each run has a result before another one takes its place in the record;
//  4. a tick whose run was interrupted stays in the record until it is run again, or is lost if the
//     policy says so;
//  5. no tick is claimed in a pause;
//
// and that on every way nothing is left to be repeated, and no request waits.
func TestExplorePausing(t *testing.T) {
	t.Parallel()
	const rerun, skip = job.InterruptedRerun, job.InterruptedSkip
	for _, tt := range []struct {
		name   string
		faults pausingFaults
		policy job.InterruptedPolicy
		breach string // the property that is violated if a manual run takes the place of what a pause holds back
		tier   simkit.Tier
	}{
		{"a pause, a request, a death", pausingFaults{pauses: 1, asks: 1, crashes: 1}, rerun, "", simkit.Small},
		{"a pause, a request, a death, skip", pausingFaults{pauses: 1, asks: 1, crashes: 1}, skip, "", simkit.Small},
		{"a pause, a request, two deaths", pausingFaults{pauses: 1, asks: 1, crashes: 2}, rerun, "", simkit.Large},
		{"a pause, two requests, one withdrawn, a death", pausingFaults{pauses: 1, asks: 2, withdrawals: 1, crashes: 1}, rerun, "", simkit.Large},
		{"nothing is held beside a manual run", pausingFaults{pauses: 1, asks: 1, crashes: 1}, rerun, "(4)", simkit.Small},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.tier.Check(t)
			found := simkit.Explore(newPausing(tt.faults, tt.policy, tt.breach != ""), simkit.NoLimit)
			t.Logf("%-45s %v", tt.name, found)
			property, _, _ := strings.Cut(found.Failure, " ")
			if property != tt.breach || tt.breach == "" && !found.Complete {
				t.Errorf("want a breach of %q: %s", tt.breach, found.Told())
			}
		})
	}
}

package sim

import (
	"math/rand/v2"
	"time"
)

// plan is the course of a seed: first its jobs are submitted and its instances started, then faults
// come. These are its steps, by number; each draws from separate random numbers, so that it is the
// same whatever is left out.
type plan struct {
	// only lists the steps that are carried out. Nil: all of them.
	only map[int]bool
	// times are when the steps came in an earlier run of the seed, since its beginning. None: as
	// drawn.
	times []time.Duration
	until time.Duration // when the noise ends, since the beginning; 0: as drawn
}

// step is called before each step. It waits for the step's time, at most for the pause if that is
// not known, and returns false if the step is left out.
func (w *world) step(pause time.Duration) bool {
	n := len(w.steps)
	w.rng = rand.New(rand.NewPCG(w.seed, firstStep+uint64(n)))
	if pause > 0 {
		pause = w.upTo(pause) // also if its time is known: what the step draws next is the same then
	}
	if n < len(w.plan.times) {
		pause = time.Until(w.begun.Add(w.plan.times[n]))
	}
	time.Sleep(pause)
	w.steps = append(w.steps, time.Since(w.begun))
	w.read()
	return w.plan.only == nil || w.plan.only[n]
}

// firstStep is the stream of random numbers of the first step.
const firstStep = 1 << 32

// bringUp submits jobs and starts instances.
func (w *world) bringUp() {
	w.setCalendars()
	w.setLimits()
	for k := range w.shards {
		if w.step(0) && (k < 5 || w.rng.IntN(4) > 0) {
			w.submit(k)
		}
	}
	for range w.Instances {
		if w.step(w.Session / 4) {
			w.start("")
		}
	}
}

// noise injects faults.
func (w *world) noise() {
	end := time.Now().Add(w.Noise)
	if w.plan.until > 0 {
		end = w.begun.Add(w.plan.until)
	}
	for time.Now().Before(end) {
		if n := len(w.steps); n >= len(w.plan.times) && w.plan.only != nil {
			time.Sleep(time.Until(end))
			break
		}
		if w.step(2 * w.FaultEvery) {
			w.fault()
		}
	}
	if w.Forgets && w.ledger.lost == nil && w.step(0) {
		w.forget()                    // no fault was
		time.Sleep(w.upTo(w.Session)) // they connect again
	}
	w.noisy = time.Since(w.begun)
}

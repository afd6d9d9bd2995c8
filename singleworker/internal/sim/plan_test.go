package sim

import (
	"math/rand/v2"
	"time"
)

// plan is what happens in a seed: first its jobs are submitted and its instances started, then faults come. These
// are its steps, by number; each draws from separate random numbers, so that it is the same whatever is left out.
type plan struct {
	leaveOut map[int]bool
	// times are when the steps came in an earlier run of the seed, since its beginning. None: as drawn.
	times []time.Duration
}

// step is called before each step with its number. It waits for the step's time, if that is known, and returns
// false if the step is left out.
func (w *world) step(n int, pause time.Duration) bool {
	w.rng = rand.New(rand.NewPCG(w.seed, firstStep+uint64(n)))
	if n < len(w.plan.times) {
		pause = time.Until(w.begun.Add(w.plan.times[n]))
	} else if pause > 0 {
		pause = w.upTo(pause)
	}
	time.Sleep(pause)
	w.steps = append(w.steps, time.Since(w.begun))
	return !w.plan.leaveOut[n]
}

// firstStep is the stream of random numbers of the first step.
const firstStep = 1 << 32

// bringUp submits jobs and starts instances.
func (w *world) bringUp() {
	for k := range w.shards {
		if w.step(len(w.steps), 0) && (k < 5 || w.rng.IntN(4) > 0) {
			w.submit(k)
		}
	}
	for range w.Instances {
		if w.step(len(w.steps), w.Session/4) {
			w.start("")
		}
	}
}

// noise injects faults.
func (w *world) noise() {
	for end := time.Now().Add(w.Noise); time.Now().Before(end); {
		if w.step(len(w.steps), 2*w.FaultEvery) {
			w.fault()
		}
	}
}

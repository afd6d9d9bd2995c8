package sim

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// Two live processes of one id: an operator's mistake, or an orchestrator that has given up on a
// process that hangs.

// twin starts a second process of an id, mostly while the first one hangs.
func (w *world) twin(victim *swtest.Instance) {
	if w.processes(victim.Name) > 1 {
		return
	}
	if w.rng.IntN(3) > 0 {
		w.stall(victim)
	}
	if w.rng.IntN(4) == 0 {
		w.order(victim.Name)
	}
	time.Sleep(w.upTo(w.Session))
	w.start(victim.Name)
}

// processes counts the processes of an id that run and were not told to stop.
func (w *world) processes(id string) (n int) {
	for _, i := range w.cluster.Live() {
		if i.Name == id {
			n++
		}
	}
	return n
}

// processOf is a live process of an id, or nil.
func (w *world) processOf(id string) *swtest.Instance {
	for _, i := range w.cluster.Live() {
		if i.Name == id {
			return i
		}
	}
	return nil
}

// awaitSingles waits until one process of each id is left: the others have ended, with an error.
func (w *world) awaitSingles() {
	double := ""
	single := func() bool {
		double = ""
		for _, i := range w.cluster.Live() {
			if w.processes(i.Name) > 1 {
				double = i.Name
			}
		}
		return double == ""
	}
	if !w.cluster.Await(w.singleWithin(), single) {
		w.violate(violation{7, double, time.Now(), fmt.Sprintf("%v after the faults two of its processes run", w.singleWithin())})
	}
}

// singleWithin is how soon after the faults each id has one process. The terms: a session that ends
// just then, and the tick at which it does, for the last change of whose node it is; the time for
// which an instance waits for a node to go, 3.5 sessions; a second's pause after an expired
// session, and one before a dial; and half a second until the next look.
func (w *world) singleWithin() time.Duration {
	return w.Session + serverTick + w.Session*7/2 + 2*time.Second + serverTick
}

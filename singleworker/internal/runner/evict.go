package runner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// holdEvicted is for how long an evicted slot waits to be handed over: with a server that answers
// it takes milliseconds. If it is not, because another slot went meanwhile, it runs here again.
const holdEvicted = time.Second

// Evict ends the run of a job that always runs with ErrMoved, for its slot to be handed over when
// the end is recorded. It leaves other runs alone.
func (r *Runner) Evict(name string) {
	r.box.Post(func() {
		act := r.running[name]
		if act == nil || !act.always {
			return
		}
		if j := r.jobs[name]; j != nil { // else this instance may not run it any more
			j.evicted = true
		}
		act.stop(ErrMoved)
	})
}

// endAlways ends the run of a job that always runs if its job has been changed from was to is: it
// would keep its first settings for ever. A pause ends no run.
func (r *Runner) endAlways(was, is Job) {
	act := r.running[is.Name]
	if act == nil || !act.always {
		return
	}
	same := was.Job != nil && reflect.DeepEqual(was.Policy, is.Policy) && was.Job.From.Equal(is.Job.From) && was.To.Equal(is.To)
	if !same {
		act.stop(fmt.Errorf("%w: %s", ErrMoved, is.Name))
	}
}

// stopAlways ends the runs of jobs that always run: to give them time would delay a stop for
// nothing.
func (r *Runner) stopAlways() {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		if act := r.running[name]; act.always {
			act.stop(ErrStopping)
		}
	}
}

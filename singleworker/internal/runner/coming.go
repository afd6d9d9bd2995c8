package runner

import (
	"slices"
	"strings"
	"time"
)

// expect decides on the jobs of an alarm when a tick comes, together with all that have one at the
// same time: one timer and one turn of the loop serve thousands. Nothing is claimed before: a run
// that is claimed when its owner crashes waits for the end of the session.
func (r *Runner) expect(a *alarm, tick time.Time, in time.Duration) {
	if in == 0 {
		r.come(tick, a)
		return
	}
	at := tick.UnixNano()
	together, waits := r.coming[at]
	r.coming[at] = append(together, a)
	if !waits {
		r.after("", in, func() {
			together := r.coming[at]
			delete(r.coming, at)
			r.come(tick, together...)
		})
	}
}

// come decides on the jobs that have a tick now: those that have the schedule by now.
func (r *Runner) come(tick time.Time, together ...*alarm) {
	var jobs []*job
	for _, a := range together {
		jobs = append(jobs, a.jobs...)
	}
	slices.SortFunc(jobs, func(a, b *job) int { return strings.Compare(a.Name, b.Name) }) // gocron has no order
	if len(jobs) >= crowd {
		r.holdBack()
	}
	for _, j := range jobs {
		j.lastDue = tick.UnixNano()
		r.decide(j)
	}
}

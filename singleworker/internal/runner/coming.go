package runner

import (
	"slices"
	"strings"
	"time"
)

// rung is a job whose alarm has gone off.
type rung struct {
	job   *job
	alarm *alarm
}

// expect decides on a job when a tick comes, together with all that have one at the same time: one timer and one turn of
// the loop serve thousands. Nothing is claimed before: what a crash finds claimed waits for the end of the session.
func (r *Runner) expect(j *job, tick time.Time, in time.Duration) {
	if in == 0 {
		r.come(tick, rung{j, j.alarm})
		return
	}
	at := tick.UnixNano()
	together, waits := r.coming[at]
	r.coming[at] = append(together, rung{j, j.alarm})
	if !waits {
		r.after("", in, func() {
			together := r.coming[at]
			delete(r.coming, at)
			slices.SortFunc(together, func(a, b rung) int { return strings.Compare(a.job.Name, b.job.Name) }) // gocron has no order
			r.come(tick, together...)
		})
	}
}

// come decides on the jobs that have a tick now.
func (r *Runner) come(tick time.Time, together ...rung) {
	if len(together) >= crowd {
		r.holdBack()
	}
	for _, rung := range together {
		if rung.job.alarm == rung.alarm { // otherwise the schedule has been replaced since
			rung.job.lastDue = tick.UnixNano()
			r.decide(rung.job)
		}
	}
}

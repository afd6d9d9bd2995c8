package runner

import "time"

// A claim takes a moment, and those of a crowd, hundreds of jobs that have a tick at the same time, take a while. So they are
// claimed ahead, and all begin on the tick. To claim ahead does no more than a clock that is fast by as much, which the
// protocol withstands. It has a price: if the instance dies in that time, its run was interrupted, where another instance would
// have claimed the tick. A job that is due alone does not pay it.
const (
	crowd    = 64                     // how many jobs are one
	perClaim = 500 * time.Microsecond // how far ahead they are claimed, for each of them,
	maxLead  = 250 * time.Millisecond // and at most
)

// rung is a job whose alarm has gone off.
type rung struct {
	job   *job
	alarm *alarm
}

// is reports whether the job still has that schedule.
func (r rung) is() bool { return r.job.alarm == r.alarm }

// coming is a tick that is about to come.
type coming struct {
	tick time.Time
	at   time.Time // when it comes, on the monotonic clock
	of   []rung
}

// expect decides on a job when a tick comes, together with all that have one at the same time: one timer and one turn of
// the loop serve thousands.
func (r *Runner) expect(j *job, tick time.Time, in time.Duration) {
	if in == 0 {
		r.come(&coming{tick: tick, of: []rung{{j, j.alarm}}})
		return
	}
	key := tick.UnixNano()
	c := r.coming[key]
	if c == nil {
		c = &coming{tick: tick, at: time.Now().Add(in)}
		r.coming[key] = c
		r.after(in-maxLead, func() { r.approach(c) })
	}
	c.of = append(c.of, rung{j, j.alarm})
}

// approach is called when a tick is so close that it may be claimed: now it is known of how many jobs it is.
func (r *Runner) approach(c *coming) {
	left := time.Until(c.at)
	r.after(left, func() {
		delete(r.coming, c.tick.UnixNano())
		r.come(c)
	})
	if n := len(c.of); n >= crowd {
		r.after(left-time.Duration(n)*perClaim, func() { r.claimAhead(c) })
	}
}

// claimAhead decides on the jobs of a tick that has not come yet, if there is room for their runs. A run of the same job that
// is in progress may end before it.
func (r *Runner) claimAhead(c *coming) {
	for _, of := range c.of {
		if j := of.job; of.is() && r.running[j.Name] == nil && !r.full() {
			j.ahead = c
			r.dueAt(j, c.tick)
		}
	}
}

// come decides on the jobs that have a tick now.
func (r *Runner) come(c *coming) {
	for _, of := range c.of {
		if of.job.ahead == c {
			of.job.ahead = nil
		} else if of.is() {
			r.dueAt(of.job, c.tick)
		}
	}
}

// dueAt decides on a job that has a tick, or is about to.
func (r *Runner) dueAt(j *job, tick time.Time) {
	j.lastDue = tick.UnixNano()
	r.decide(j)
}

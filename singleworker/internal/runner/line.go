package runner

import (
	"sync/atomic"
	"time"
)

// line lets only so many runs be in progress, and has jobs wait until others have ended. A run
// counts from the decision to claim it until its result is recorded, so that there are never more
// than the limit. Runs of jobs that always run do not count: they would keep others from running
// for ever.
type line struct {
	limit int    // 0: none
	runs  int    // that count
	jobs  []*job // with a run to open when others have ended, the longest waiting first

	atLimit atomic.Bool  // as full reports, for others than the loop
	waiting atomic.Int64 // the length of jobs, for others than the loop
}

// full reports whether as many runs are in progress as may be.
func (l *line) full() bool { return l.limit > 0 && l.runs >= l.limit }

// enter counts a run that is to be claimed.
func (l *line) enter() {
	l.runs++
	l.atLimit.Store(l.full())
}

// leave counts a run no longer. Others hear of the room by the next call, when those in line have
// had their turn.
func (l *line) leave() { l.runs-- }

// add makes a job wait until a run of another one has ended. The decision is made then, by the
// time that it is: a tick that has waited for too long is subject to the job's misfire policy.
func (l *line) add(j *job, now time.Time) {
	if j.limited = false; j.waitsSince.IsZero() {
		j.waitsSince = now
	}
	if !j.inLine {
		j.inLine = true
		l.jobs = append(l.jobs, j)
		l.waiting.Store(int64(len(l.jobs)))
	}
}

// call has those that wait decide while there is room.
func (l *line) call(decide func(j *job)) {
	for len(l.jobs) > 0 && !l.full() {
		j := l.jobs[0]
		l.jobs = l.jobs[1:]
		j.inLine = false
		decide(j)
	}
	l.waiting.Store(int64(len(l.jobs)))
	l.atLimit.Store(l.full())
}

package ticks

import "github.com/swjobs/singleworker/singleworker/history"

// lastPause is the end of the job's last pause, or 0: failures count since then.
func (j Job) lastPause() int64 {
	if j.Paused == nil {
		return 0
	}
	return j.Paused.Until
}

// Failed is how many ticks of a slot in a row have failed for good, by its record, since the job
// was resumed.
func (j Job) Failed(r Record) int {
	if j.Policy.PauseAfterFailures == 0 || r.FailedSince != j.lastPause() {
		return 0
	}
	return r.Failed
}

// Failing reports whether as many have failed as pause the job, and it is not paused yet. Nothing
// of the schedule begins then, so that no run comes between the last failure and the pause.
func (j Job) Failing(r Record) bool {
	paused := j.Paused != nil && j.Paused.Until == 0
	return !paused && j.Policy.PauseAfterFailures > 0 && j.Failed(r) >= j.Policy.PauseAfterFailures
}

// countFailed writes into the record of a run that has ended how many ticks in a row have failed
// with it.
func (j Job) countFailed(r *Record) {
	n := j.Failed(*r)
	switch {
	case j.Policy.PauseAfterFailures == 0:
	case r.State == history.StateOK:
		n = 0
	case r.Manual == "" && r.NextAttempt == "" && (r.State == history.StateFailed || r.State == history.StateTimedOut):
		n++
	}
	if r.Failed, r.FailedSince = n, 0; n > 0 {
		r.FailedSince = j.lastPause()
	}
}

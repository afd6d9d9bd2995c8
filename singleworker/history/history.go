// Package history says how the ticks of a job went: the run of a tick, or why it was not run. The
// hooks of an instance, package admin, the run log and the page all speak of a run in these terms.
// The names of the states and reasons are also those of the records in ZooKeeper, and of all JSON.
package history

import "time"

// State is the outcome of a tick, or of one run of it.
type State string

// The states.
const (
	StateRunning     State = "running"     // it was claimed, and has no result yet
	StateOK          State = "ok"          // the handler returned nil
	StateFailed      State = "failed"      // the handler returned an error, or panicked
	StateTimedOut    State = "timed_out"   // it took longer than Job.Timeout
	StateInterrupted State = "interrupted" // its instance died, stopped or lost the job before it returned, or an operator stopped it
	StateRefused     State = "refused"     // Job.BeforeTick refused the tick: no shard runs it
	StateLost        State = "lost"        // interrupted without a result, and not run again
	StateSkipped     State = "skipped"     // not run because of a policy or an operator: see Entry.Reason
	StateMissed      State = "missed"      // not run because it was not claimed in time: see Entry.Reason
)

// The states that only a reader sees.
const (
	// StateUnknown means that the run started and has no result, and its owner has died or lost the
	// job.
	StateUnknown State = "unknown"
	// StateWaiting means that the run was requested and has not started.
	StateWaiting State = "waiting"
	// StateUnreadable means that the record cannot be read. Run.Error says why.
	StateUnreadable State = "unreadable"
)

// Unsuccessful reports whether a run has ended, and not well.
func (s State) Unsuccessful() bool {
	switch s {
	case StateFailed, StateTimedOut, StateInterrupted, StateRefused, StateLost:
		return true
	case StateOK, StateRunning, StateSkipped, StateMissed, StateUnknown, StateWaiting, StateUnreadable:
	}
	return false
}

// Reason is why a tick was not run.
type Reason string

// The reasons why ticks are not run.
const (
	ReasonOverlap         Reason = "overlap"          // the previous run was still in progress
	ReasonPaused          Reason = "paused"           // the job was paused
	ReasonFrozen          Reason = "frozen"           // the group was frozen, and the job not excepted
	ReasonNoOwner         Reason = "no_owner"         // the job had no owner
	ReasonAbsent          Reason = "absent"           // of a job that runs on every instance: this one was not there, or took no jobs
	ReasonStalled         Reason = "stalled"          // its owner could not claim it in time
	ReasonDelayed         Reason = "delayed"          // its owner had as many runs in progress as it may, for too long
	ReasonLimited         Reason = "limited"          // it waited for a place of a limit for too long
	ReasonRefused         Reason = "refused"          // Job.BeforeTick refused it
	ReasonNotBegun        Reason = "not_begun"        // Job.BeforeTick failed, or was not called: the history of the first shard says why
	ReasonScheduleChanged Reason = "schedule_changed" // the schedule was replaced before it was claimed
	ReasonParent          Reason = "parent"           // a job of Job.After has not run it successfully: Run.Error says which, and how it went there
	ReasonParentLate      Reason = "parent_late"      // a job of Job.After had not run it by the deadline: Run.Error says which
	ReasonParentForgotten Reason = "parent_forgotten" // the history of a job of Job.After does not go back that far: Run.Error says which
)

// What follows a run that did not succeed.
const (
	NextRetry = "retry" // it failed, or timed out
	NextRerun = "rerun" // it was interrupted
)

// Past is why a past tick may be run once more, by name.
type Past string

// The reasons why a past tick may be run by name.
const (
	PastMissed  Past = "missed"  // it was not claimed in time
	PastSkipped Past = "skipped" // a policy or an operator kept it from being run
	PastFailed  Past = "failed"  // its last attempt failed, timed out, or was interrupted
	PastAgain   Past = "again"   // it was ok, and somebody wants it to be run again nevertheless
	// PastForgotten is as PastAgain, and the history has forgotten it: Run.Attempt is the least that
	// it can be.
	PastForgotten Past = "forgotten"
)

// Again reports whether the effects of the tick are to be made once more.
func (p Past) Again() bool { return p == PastAgain || p == PastForgotten }

// Asked names those who have asked for a run, or for its end, and their reasons. Each text is cut
// after 100 bytes.
type Asked struct {
	// AskedBy asked for a manual run.
	AskedBy     string `json:"asked_by,omitempty"`
	AskedReason string `json:"asked_reason,omitempty"`
	// Past is set if they asked for a further attempt at a past tick: why that was allowed.
	Past Past `json:"past,omitempty"`
	// StoppedBy asked for the end of the run.
	StoppedBy     string `json:"stopped_by,omitempty"`
	StoppedReason string `json:"stopped_reason,omitempty"`
}

// Effects says by which run the effects of a tick came about.
type Effects struct {
	// RunID is that run, whose own result was lost, and InstanceID its instance. They are cut after
	// 100 bytes, and empty if they are not known.
	RunID      string `json:"run_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	// At is since when the effects have been there: if that is not known, when they were found.
	At time.Time `json:"at"`
}

// Run is one execution of a handler. Times are by its instance's clock.
type Run struct {
	// Tick is the scheduled time. For a manual run that is not of a past tick, it is when the run
	// was requested.
	Tick time.Time `json:"tick,omitzero"`
	// Manual is the ID of the request for a manual run; empty for a scheduled
	// run.
	Manual     string    `json:"manual,omitempty"`
	State      State     `json:"state"`
	InstanceID string    `json:"instance_id"`
	Token      int64     `json:"token"`
	RunID      string    `json:"run_id"`
	Attempt    int       `json:"attempt"`            // of this tick, from 1; one that was not begun does not count
	Failures   int       `json:"failures,omitempty"` // attempts before that failed, or, of PastAgain, have ended; the others were interrupted
	Started    time.Time `json:"started_at,omitzero"`
	Ended      time.Time `json:"ended_at,omitzero"` // zero while it runs
	Error      string    `json:"error,omitempty"`   // at most 4 KiB
	// NotBegun says that an interrupted run was claimed and never begun: its instance stopped, drained
	// or lost the job before it called the handler. Unless the tick is given up, the next run is the
	// same attempt.
	NotBegun bool `json:"not_begun,omitempty"`
	// Effects is set if the run is ok although its handler was not called: Config.Resolve, asked by
	// its instance, has found the effects of an attempt before. Otherwise it is zero.
	Effects Effects `json:"effects,omitzero"`
	// TakenFrom is the instance that owned the job and had not claimed the run in time, so that
	// InstanceID took the job over. Empty if that did not happen.
	TakenFrom string `json:"taken_from,omitempty"`
	// DelayedMillis is how long the run waited for others to end, in milliseconds: its instance had as
	// many in progress as it may, or there were too few places of a limit.
	DelayedMillis int64 `json:"delayed_ms,omitempty"`
	// Begun is when Job.BeforeTick had returned nil for the tick; zero if it has not, or the job has
	// none.
	Begun time.Time `json:"begun_at,omitzero"`
	// Restarts is, of a job that always runs, how many runs before this one, in a row, lasted less
	// than 10 minutes and were not ended because the job moved.
	Restarts int `json:"restarts,omitempty"`
	// NextAttempt is NextRetry or NextRerun if the tick is to be run again, at NextAttemptAt or later.
	// Only package admin says so, of the last run and of one that a pause holds back.
	NextAttempt   string    `json:"next_attempt,omitempty"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`

	Asked
}

// OK reports whether the run succeeded.
func (r Run) OK() bool { return r.State == StateOK }

// OfTick reports whether the run is of a tick of the schedule: of its own accord, or by name.
func (r Run) OfTick() bool { return r.Manual == "" || r.Past != "" }

// Entry is the outcome of a tick: a run, or consecutive ticks that were not run.
type Entry struct {
	// Number counts the entries of the slot's history, from 1; it never changes. 0 is a run that has
	// not ended: it has no entry yet.
	Number int64 `json:"number,omitempty"`
	// Rev counts the writes of the history, up to the one that has last changed the entry: its first
	// one, or one by which a row of ticks became longer, or a result came late.
	Rev int64 `json:"rev,omitempty"`
	Run
	// To and Count are the last and the number of consecutive ticks that were not
	// run; 10,000 means at least that many. For a single tick they are Tick and 1.
	To     time.Time `json:"last_tick,omitzero"`
	Count  int       `json:"count"`
	Reason Reason    `json:"reason,omitempty"` // empty for a run
	// Shard is the index of the shard; nil if the job has no shards, and where the slot is named
	// beside the entry.
	Shard *int `json:"shard,omitempty"`
}

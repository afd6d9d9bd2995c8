package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The states of a run, and of ticks that were not run.
const (
	RunRunning     = "running"
	RunOK          = "ok"
	RunFailed      = "failed"
	RunTimedOut    = "timed_out"
	RunInterrupted = "interrupted" // its instance died, stopped or lost the job, or an operator stopped it
	RunLost        = "lost"        // interrupted, and not run again
	RunSkipped     = "skipped"     // not run: a rule or an operator wanted it so
	RunMissed      = "missed"      // not run: nobody was there in time
	// RunUnknown: it began, and its result was not written by an owner that is
	// no longer the owner, or not alive.
	RunUnknown = "unknown"
	// RunWaiting: it was asked for, and nobody has begun it.
	RunWaiting = "waiting"
	// RunUnreadable: its record holds garbage; Run.Error says what.
	RunUnreadable = "unreadable"
)

// Reason is why a tick was not run.
type Reason string

// The reasons why ticks are not run.
const (
	ReasonOverlap         Reason = "overlap"          // the previous run was still in progress
	ReasonPaused          Reason = "paused"           // the job was paused
	ReasonNoOwner         Reason = "no_owner"         // the job had no owner
	ReasonStalled         Reason = "stalled"          // its owner could not claim them in time
	ReasonScheduleChanged Reason = "schedule_changed" // the schedule was replaced before they were claimed
)

// What is to come after a run that did not end well.
const (
	NextRetry = "retry" // it failed, or timed out
	NextRerun = "rerun" // it was interrupted
)

// Run is one execution of a handler. Times are on the clock of its instance.
type Run struct {
	// Tick is the scheduled time; of a manual run, when it was asked for.
	Tick time.Time `json:"tick,omitzero"`
	// Manual is the id of the Trigger that asked for the run; empty for a run of
	// the schedule.
	Manual     string    `json:"manual,omitempty"`
	State      string    `json:"state"` // RunRunning ...
	InstanceID string    `json:"instance_id"`
	Token      int64     `json:"token"`
	RunID      string    `json:"run_id"`
	Attempt    int       `json:"attempt"`            // of this tick, from 1
	Failures   int       `json:"failures,omitempty"` // attempts before that failed; the others were interrupted
	Started    time.Time `json:"started_at,omitzero"`
	Ended      time.Time `json:"ended_at,omitzero"` // zero while it runs
	Error      string    `json:"error,omitempty"`   // at most 4 KiB
	// Again is NextRetry or NextRerun when the tick is to be run once more,
	// from NextAttemptAt on; only of the last run of a job.
	NextAttempt   string    `json:"next_attempt,omitempty"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
}

// OK reports whether the run ended well.
func (r Run) OK() bool { return r.State == RunOK }

// Entry is what became of a tick: a run, or a row of ticks that were not run.
type Entry struct {
	Run
	// To and Count are the last tick and the number of a row of ticks that were
	// not run; 10,000 stands for that many or more. Of one tick they are Tick
	// and 1.
	To     time.Time `json:"last_tick,omitzero"`
	Count  int       `json:"count"`
	Reason Reason    `json:"reason,omitempty"` // empty for a run
	// Shard is the index of the shard that it is of; nil if the job is not
	// divided.
	Shard *int `json:"shard,omitempty"`
}

func runOf(r zkrec.Run) Run {
	return Run{
		Tick: milli(r.Tick), Manual: r.Manual, State: r.State, InstanceID: r.SID, Token: r.Token,
		RunID: r.RunID, Attempt: r.Attempt, Failures: r.Failures,
		Started: milli(r.Started), Ended: milli(r.Ended), Error: r.Error,
	}
}

func entryOf(e zkrec.Entry) Entry {
	return Entry{Run: runOf(e.Run), To: milli(e.Last()), Count: e.Ticks(), Reason: Reason(e.Reason)}
}

// milli is a time of the records; 0 stands for none.
func milli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return inUTC(time.UnixMilli(ms))
}

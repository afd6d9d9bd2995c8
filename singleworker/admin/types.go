package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// State says in one word how a job is.
type State string

// The states of a job.
const (
	StateOwned   State = "owned"   // its owner lives
	StateUnowned State = "unowned" // nobody owns it now; JobStatus.Reason says why
	StateInvalid State = "invalid" // its record cannot be read or can never run; Reason says why
	// StateCanceled: it is being deleted, in several steps because it has many
	// shards, and counts as gone. Cancel, or Submit, completes that if it was
	// interrupted.
	StateCanceled State = "canceled"
)

// JobStatus is a job, or one of its shards, and what the records say of it. Of a
// job with shards it says what holds for all, and Slots have the rest: it is
// StateOwned if all shards are, and Owner, LastRun and Alarm are nil.
type JobStatus struct {
	// Name is the job's, or the shard's, such as "report[3]".
	Name string `json:"name"`
	// Job describes the whole job, with its defaults spelled out. Only its Name
	// is set if its record cannot be read.
	Job job.Job `json:"spec,omitzero"`
	// Shard says which shard it is of; nil for a whole job.
	Shard *Shard `json:"shard,omitempty"`
	// Slots are the shards that run now, by index; none if the job is not
	// divided. While Resizing they are not what Job.Shards asks for.
	Slots []JobStatus `json:"shards,omitempty"`
	// Resizing is a change of the shards that has yet to take effect; nil when
	// there is none.
	Resizing *Resizing `json:"resizing,omitempty"`
	// Complete is the tick up to which all shards of the job are done with all
	// ticks; zero when there was none yet, or the job is not divided.
	Complete time.Time `json:"complete_through,omitzero"`
	// Version counts the changes of the job's record since it was created,
	// from 0: its ZooKeeper data version.
	Version int32 `json:"version"`
	// Declared reports that the job is as an application's code declared it
	// (Manager.Schedule), with no operator's change on top.
	Declared bool  `json:"declared"`
	State    State `json:"state"`
	// Reason explains a State other than StateOwned, and names what to do.
	Reason string `json:"reason,omitempty"`
	// Owner is what the owner record says: nil when it names nobody. An owner
	// that has died is named until it is replaced; the State is Unowned then.
	Owner *Owner `json:"owner"`
	// Registered lists the instances, sorted, that said they have the
	// handler; dead ones included until they are cleaned up.
	Registered []string `json:"registered"`
	// NextRun is the next tick of the schedule that a pause does not stop; zero
	// when there is none.
	NextRun time.Time `json:"next_run_at,omitzero"`
	// LastRun is nil when the job never ran.
	LastRun *Run `json:"last_run"`
	// Watermark is the tick up to which each was claimed or recorded as not run, by
	// every shard; zero when there was none yet.
	Watermark time.Time `json:"accounted_through,omitzero"`
	// Overdue is the first tick, of any shard, that nobody has accounted for
	// although it is late by AlarmAfter; zero when there is none. The ticks of a pause are due
	// when it is over, and a run that goes on excuses all.
	Overdue time.Time `json:"overdue_tick,omitzero"`
	// Alarm is the last tick that an instance reported as missing; nil when none
	// ever was. It stays when the tick was accounted for later on.
	Alarm *Alarm `json:"alarm,omitempty"`
	// Paused is the pause that is in force; nil when there is none.
	Paused *Pause `json:"paused,omitempty"`
}

// Pause says since when a job is paused, and why. Times are on the clock of
// whoever paused it.
type Pause struct {
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is resumed
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	// Missed says what becomes of the ticks of the pause when it is over.
	Missed job.MisfirePolicy `json:"missed"`
}

// Alarm is a tick that was reported missing.
type Alarm struct {
	Tick       time.Time `json:"tick,omitzero"`
	InstanceID string    `json:"instance_id"` // that noticed; it does not own the job
	At         time.Time `json:"at,omitzero"` // on its clock
}

// Owner is the instance that owns a job.
type Owner struct {
	InstanceID string `json:"instance_id"`
	// Token is the fencing token of this ownership: it grows with every
	// adoption.
	Token int64 `json:"token"`
	// Since is when the job was adopted, on ZooKeeper's clock.
	Since time.Time `json:"since,omitzero"`
}

// Outcome says what a change did.
type Outcome string

// The outcomes of Submit, Edit, Pause, Resume, and of orders to instances.
const (
	OutcomeCreated   Outcome = "created"
	OutcomeReplaced  Outcome = "replaced"
	OutcomeChanged   Outcome = "changed"
	OutcomePaused    Outcome = "paused"
	OutcomeResumed   Outcome = "resumed"
	OutcomeOrdered   Outcome = "ordered"
	OutcomeEnabled   Outcome = "enabled"
	OutcomeUnchanged Outcome = "unchanged" // all was already exactly so
)

// SubmitOptions changes how Submit treats what it finds. The zero value
// creates a job and never changes one.
type SubmitOptions struct {
	// Replace changes a job that exists and differs, instead of ErrExists.
	Replace bool
	// DryRun checks and reports what would be done, and writes nothing.
	DryRun bool
}

// Change is what Submit or Edit did, or would do in a dry run.
type Change struct {
	Outcome Outcome `json:"outcome"`
	Job     job.Job `json:"spec,omitzero"` // as it is now, with its defaults spelled out
	// Before is the job as it was, when Outcome is OutcomeChanged, or
	// OutcomeReplaced and its record could be read.
	Before  *job.Job  `json:"before,omitempty"`
	Version int32     `json:"version"`              // of the job's record: see JobStatus.Version
	NextRun time.Time `json:"next_run_at,omitzero"` // as JobStatus.NextRun
}

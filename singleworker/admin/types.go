package admin

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// State is the state of a job.
type State string

// The states of a job.
const (
	StateOwned   State = "owned"   // its owner lives
	StateUnowned State = "unowned" // it has no owner now; JobStatus.Reason says why
	StateInvalid State = "invalid" // a record cannot be read, or the job can never run; Reason says why
	// StateCanceled means that a job with many shards is being deleted in several
	// steps, and counts as gone. If that was interrupted, Cancel or Submit
	// completes it.
	StateCanceled State = "canceled"
	// StateDone means that the last tick of a job with an "@at" schedule, Job.NotAfter or Job.MaxRuns
	// is accounted for, nothing of it runs or waits to run, and nobody owns it. JobStatus.DoneAt says
	// since when. One with "@at" is removed Job.KeepDone after that.
	StateDone State = "done"
)

// JobStatus is the status of a job, or of one shard, according to the records.
// For a job with shards it summarizes them, and Slots has the details: the State
// is StateOwned if that of all shards is, and Owner, LastRun and Alarm are nil.
type JobStatus struct {
	// Name is that of the job, or of the shard, such as "report[3]".
	Name string `json:"name"`
	// Job describes the whole job, with its defaults spelled out. Only its Name
	// is set if its record cannot be read.
	Job job.Job `json:"spec,omitzero"`
	// Shard identifies the shard; nil for a whole job.
	Shard *Shard `json:"shard,omitempty"`
	// InstanceID is that of the instance whose part of a job this is that runs on every instance; ""
	// otherwise.
	InstanceID string `json:"instance_id,omitempty"`
	// Slots are the current shards, by index; empty if the job has no shards. During resharding their
	// number may differ from Job.Shards. Of a job that runs on every instance they are its parts, such
	// as "report/app-1", sorted by instance; those of instances that are gone or take no jobs stay for
	// a day, unowned with reason.Absent, and do not count in the State of the job.
	Slots []JobStatus `json:"shards,omitempty"`
	// Resizing is a change of the shards that has not taken effect yet, or nil.
	Resizing *Resizing `json:"resizing,omitempty"`
	// Complete is the tick up to which all shards of the job have finished all
	// ticks; zero if there is no such tick yet, or the job has no shards.
	Complete time.Time `json:"complete_through,omitzero"`
	// Version counts the changes of the job's record since it was created, from 0: its ZooKeeper
	// data version. A pause is another record, and leaves it as it is.
	Version int32 `json:"version"`
	// SpecBytes is how long the job's record is, of at most job.MaxBytes.
	SpecBytes int `json:"-"`
	// Number counts the versions of the job, from 1: how often an operator or code has changed it,
	// which Versions tells. 0 if its record cannot be read.
	Number int `json:"number,omitempty"`
	// Declared means that the job is as declared in an application's code
	// (Manager.Schedule), without an operator's change.
	Declared bool `json:"declared"`
	// DeclaredBy is the instance that first declared the job as it is, or as it was before an
	// operator's change, with its version: "app-1 (v1.4.0)"; DeclaredAt is when, by its clock.
	// Empty if none ever did, or an older version.
	DeclaredBy string    `json:"declared_by,omitempty"`
	DeclaredAt time.Time `json:"declared_at,omitzero"`
	// ID tells the job from others that had its name before it: it is the ZooKeeper transaction that
	// created the job.
	ID int64 `json:"-"`
	// Set names the files that the job comes from: see SubmitOptions.Set. Empty if it comes from none.
	Set string `json:"set,omitempty"`
	// Edited means that somebody has changed the job since the files of its Set were applied.
	Edited bool `json:"edited,omitempty"`
	// Undeclared means that no live instance declares the job any more, according to what they
	// publish. Only Get tells.
	Undeclared   bool `json:"undeclared,omitempty"`
	group        string
	declaredLate bool // by a running Manager, which does not publish that
	// Declarations say how the live instances declare the job when they start, sorted by instance.
	// Empty if all do it in the same way, or do not publish it.
	Declarations []Declaration `json:"declarations,omitempty"`
	State        State         `json:"ownership"`
	// Reason is why the State is not StateOwned. In JSON it is a sentence, with its code as
	// "reason_code".
	Reason reason.Reason `json:"reason,omitzero"`
	// Conditions are what is wrong with the job, or the shard, or worth knowing of it, when it was
	// read. The first says how it stands, see Health. Nil if it is owned and runs as it should.
	Conditions []reason.Condition `json:"conditions,omitempty"`
	// Owner is the owner on record, or nil. An owner that has died stays on record
	// until it is replaced; State is StateUnowned then.
	Owner *Owner `json:"owner"`
	// Registered lists the instances that have registered the handler, sorted,
	// including dead ones until they are cleaned up.
	Registered []string `json:"registered"`
	// NextRun is when the next tick is due, by Job.Jitter, that is neither paused nor accounted for.
	// It is zero if there is no further tick, or nobody runs it as things are: the job is invalid, or
	// each instance that lives lacks its handler, may not run it, or is full.
	NextRun time.Time `json:"next_run_at,omitzero"`
	// DoneAt is since when the job is done, by ZooKeeper's clock; zero if its State is not StateDone.
	DoneAt time.Time `json:"done_at,omitzero"`
	// Runs is how many ticks were claimed of those that Job.MaxRuns counts.
	Runs int `json:"runs,omitempty"`
	// LastRun is nil if the job never ran.
	LastRun *history.Run `json:"last_run"`
	// HeldRun is a run before LastRun, which is manual: its NextAttempt waits for the end of a pause.
	// Nil if none does.
	HeldRun *history.Run `json:"held_run,omitempty"`
	// Overrun is the first tick that came due during the run in progress; zero if none did. By
	// Job.Overlap, it and those after it are skipped, or wait for the run to end.
	Overrun time.Time `json:"overrun_tick,omitzero"`
	// Hung says that the run in progress seems to hang; nil if it does not. Of a job with shards, it
	// is the run that began first.
	Hung *Hung `json:"hung,omitempty"`
	// Failing says for how long runs have failed; nil if the last one did not. For a job with
	// shards, Slots have it.
	Failing *Failing `json:"failing,omitempty"`
	// Watermark is the time up to which every tick was claimed or recorded as not
	// run, by every shard; zero if no tick was.
	Watermark time.Time `json:"accounted_through,omitzero"`
	// Overdue is the first tick, of any shard, that is not accounted for and late
	// by AlarmAfter; zero if no tick is overdue. Ticks of a pause are due when it
	// is over. No tick is overdue while a run is in progress.
	Overdue time.Time `json:"overdue_tick,omitzero"`
	// Waiting is the first tick, of any shard, that is due and waits for Job.BeforeTick, which the
	// first shard calls, or for the jobs of Job.After; zero if none does. WaitsFor lists the
	// jobs that have not run it.
	Waiting  time.Time `json:"waiting_tick,omitzero"`
	WaitsFor []Parent  `json:"waits_for,omitempty"`
	// Limited are the limits of Job.Limits of which a run that is due waits for places, in any slot.
	// It is nil if none does.
	Limited []LimitWait `json:"limited_by,omitempty"`
	// Alarm is the last tick that an instance reported as missed, or nil. It stays
	// even if the tick is accounted for later.
	Alarm *Alarm `json:"alarm,omitempty"`
	// Paused is the pause in force, or nil.
	Paused *Pause `json:"paused,omitempty"`
	// Frozen is the freeze of the group that is in force, or nil, also of a job that is excepted. See
	// Client.Freeze.
	Frozen *Pause `json:"frozen,omitempty"`
}

// Declaration is how an instance declares a job in its code.
type Declaration struct {
	InstanceID string `json:"instance_id"`
	Program    string `json:"program,omitempty"` // its Config.Version
	// Fingerprint is equal for equal jobs.
	Fingerprint string `json:"fingerprint"`
}

// String is "app-1 (1.4.0)".
func (d Declaration) String() string {
	return fmt.Sprintf("%s (%s)", d.InstanceID, cmp.Or(d.Program, "no version"))
}

// Failing is a row of failed runs, as far as the history goes back. Interrupted runs do not
// count, and the attempts of one tick count once.
type Failing struct {
	Runs  int       `json:"runs"`                  // how many ticks in a row have failed
	More  bool      `json:"more,omitempty"`        // there may be others before them, which the history has forgotten
	Since time.Time `json:"since_tick,omitzero"`   // the first of them
	OK    time.Time `json:"last_ok_tick,omitzero"` // the last tick before them that succeeded; zero if the history has none
}

// Pause is a pause of a job. Times are by the operator's clock.
type Pause struct {
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is resumed
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	// Missed is the policy for the ticks of the pause when it is over.
	Missed job.MisfirePolicy `json:"missed"`
}

// Alarm is a tick that was reported as missed.
type Alarm struct {
	Tick       time.Time `json:"tick,omitzero"`
	InstanceID string    `json:"instance_id"` // that noticed; not necessarily the owner
	At         time.Time `json:"at,omitzero"` // by its clock
}

// Owner is the instance that owns a job.
type Owner struct {
	InstanceID string `json:"instance_id"`
	// Token is the fencing token of this ownership: it grows with every
	// adoption.
	Token int64 `json:"token"`
	// Since is when the job was adopted, by ZooKeeper's clock.
	Since time.Time `json:"since,omitzero"`
	// WrongClock means that the instance lives, and its clock differs too much from ZooKeeper's to
	// take jobs: it keeps this one until its run has ended.
	WrongClock bool `json:"wrong_clock,omitempty"`
	// Resolver means that the instance lives, and has a Config.Resolve.
	Resolver bool `json:"resolver,omitempty"`
}

// Outcome is what a change did.
type Outcome string

// The outcomes of Submit, Edit, Undelete, Pause, Resume, and of orders to instances.
const (
	OutcomeCreated   Outcome = "created"
	OutcomeReplaced  Outcome = "replaced"
	OutcomeDeleted   Outcome = "deleted" // of a calendar, or a limit
	OutcomeChanged   Outcome = "changed"
	OutcomePaused    Outcome = "paused"
	OutcomeResumed   Outcome = "resumed"
	OutcomeFrozen    Outcome = "frozen"   // of the group
	OutcomeUnfrozen  Outcome = "unfrozen" // likewise
	OutcomeOrdered   Outcome = "ordered"
	OutcomeEnabled   Outcome = "enabled"
	OutcomeUndeleted Outcome = "undeleted"
	OutcomeUnchanged Outcome = "unchanged" // nothing had to be changed
)

// Seen is a job as somebody has read it.
type Seen struct {
	ID      int64 // as JobStatus.ID
	Version int32 // as JobStatus.Version
}

// Seen is the job as it was read.
func (s *JobStatus) Seen() Seen { return Seen{ID: s.ID, Version: s.Version} }

// Change is what Submit or Edit did, or would do in a dry run.
type Change struct {
	Outcome Outcome `json:"outcome"`
	Job     job.Job `json:"spec,omitzero"` // as it is now, with its defaults spelled out
	// Before is the job as it was, when Outcome is OutcomeChanged, or
	// OutcomeReplaced and its record could be read.
	Before  *job.Job `json:"before,omitempty"`
	Version int32    `json:"version"` // of the job's record: see JobStatus.Version
	Number  int      `json:"number"`  // as JobStatus.Number, after it
	// NextRun is as JobStatus.NextRun, if somebody runs it, and the group is not frozen.
	NextRun time.Time `json:"next_run_at,omitzero"`
}

// Shard is one shard of a job.
type Shard struct {
	Index     int    `json:"index"`
	Total     int    `json:"total"`     // how many there are now
	Parameter string `json:"parameter"` // what it works on; may be empty
}

// Resizing is a change of a job's shards that has not taken effect yet: ticks
// that some shard has already claimed are run by all shards of the old layout.
type Resizing struct {
	// From and To are the old and the new number of shards; 0 means that the job
	// has no shards. If they are equal, the parameters change.
	From int `json:"from"`
	To   int `json:"to"`
	// Until is the last tick of the old layout; zero until an instance has
	// decided on it.
	Until time.Time `json:"last_tick,omitzero"`
	// WaitsFor names the shards, such as "report[3]", that have not finished the
	// ticks up to Until; or the job itself, if it has no shards.
	WaitsFor []string `json:"waits_for"`
}

// String is "from 3 to 5, which waits for report[0], report[2]".
func (r Resizing) String() string {
	text := fmt.Sprintf("from %d to %d", r.From, r.To)
	switch {
	case r.From == r.To:
		text = "to other parameters"
	case r.From == 0:
		text = fmt.Sprintf("from undivided to %d", r.To)
	case r.To == 0:
		text = fmt.Sprintf("from %d to undivided", r.From)
	}
	const most = 3
	waits := "an instance to make it"
	switch n := len(r.WaitsFor); {
	case n > most:
		waits = fmt.Sprintf("%s and %d more", strings.Join(r.WaitsFor[:most], ", "), n-most)
	case n > 0:
		waits = strings.Join(r.WaitsFor, ", ")
	}
	return text + ", which waits for " + waits
}

// Parent is a job of Job.After that has not run the tick that waits for it.
type Parent struct {
	Name string `json:"name"`
	// Run is its run of the tick, in progress or to be repeated; nil if it has not claimed the tick.
	Run *history.Run `json:"run,omitempty"`
}

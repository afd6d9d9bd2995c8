package admin

import (
	"encoding/json"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// MaxShards is the largest number of shards of a job.
const MaxShards = zkrec.MaxShards

// Job is what a submitter asks for.
type Job struct {
	// Name identifies the job in its group: 1 to 200 bytes of printable
	// UTF-8 without '/', not ".", "..", nor beginning with '_' or ending like
	// "[3]", which names a shard.
	Name string
	// Schedule is Quartz cron (6 or 7 fields), crontab (5 fields), @daily and
	// the like, "@every 90s" or "@at 2026-12-24T18:00:00+01:00"; see
	// package cronexpr.
	Schedule string
	// TimeZone is an IANA name such as "Europe/Berlin". Default: UTC.
	TimeZone string
	// Handler names the function that runs the job. Default: the job's name.
	Handler string
	// Args are handed to the handler.
	Args map[string]string
	// Payload is JSON that is handed to the handler beside Args. Default: none.
	Payload json.RawMessage

	// Shards divides the job: each tick is run by every shard, 0 to Shards-1,
	// once, on whichever instance owns the shard. 1 to MaxShards; default 0: the
	// job is not divided. When it changes, ticks that some shard has claimed
	// already are run by all shards as they were, and the change takes effect
	// when the last of these runs has ended.
	Shards int
	// ShardParameters says, by index, what a shard works on. A shard may have
	// none. A change is one of the shards.
	ShardParameters map[int]string

	// Misfire says what becomes of ticks that nobody claimed in time, because
	// nobody owned the job or its owner was stalled: "once" (default) runs the
	// latest of them, "skip" none, "all" each in order, of more than 100 the
	// latest 100.
	Misfire string
	// MisfireGrace is how old a tick may be to be run at all. Default 0: any age.
	MisfireGrace time.Duration
	// Interrupted says what becomes of a run whose instance died, stopped or
	// lost the job: "rerun" (default) runs its tick again, "skip" does not.
	Interrupted string
	// MaxAttempts is how often a tick whose runs are interrupted is begun, 1 to
	// 100. Default 3.
	MaxAttempts int
	// Overlap says what becomes of ticks that come while a run goes on: "skip"
	// (default) runs none of them, "queue" the latest when the run has ended.
	Overlap string
	// Timeout of one run; when it is over the context of the run ends. Default
	// 0: none.
	Timeout time.Duration
	// Retries is how often a run that failed or timed out is repeated, up to
	// 100. Default 0.
	Retries int
	// Backoff is the pause before the first retry; it doubles with each.
	// Default 1 s.
	Backoff time.Duration
	// AlarmAfter is how late a tick is when it is reported as missing, if it was
	// neither claimed nor recorded as not run. Default 1 min.
	AlarmAfter time.Duration
}

// State says in one word how a job is.
type State string

// The states of a job.
const (
	Owned   State = "owned"   // its owner lives
	Unowned State = "unowned" // nobody owns it now; JobStatus.Reason says why
	Invalid State = "invalid" // its record cannot be read or can never run; Reason says why
	// Canceled: it is being deleted, in several steps because it has many shards,
	// and counts as gone. Cancel, or Submit, completes that if it was interrupted.
	Canceled State = "canceled"
)

// JobStatus is a job, or one of its shards, and what the records say of it. Of a
// job with shards it says what holds for all, and Slots have the rest: it is
// Owned if all shards are, and Owner, LastRun and Alarm are nil.
type JobStatus struct {
	Job // Name is that of the shard, such as "report[3]", if it is of one
	// Shard says which shard it is of; nil for a whole job.
	Shard *Shard
	// Slots are the shards that run now, by index; none if the job is not
	// divided. While Resizing they are not what Job.Shards asks for.
	Slots []JobStatus
	// Resizing is a change of the shards that has yet to take effect; nil when
	// there is none.
	Resizing *Resizing
	// Complete is the tick up to which all shards of the job are done with all
	// ticks; zero when there was none yet, or the job is not divided.
	Complete time.Time
	// Version counts the changes of the job's record since it was created,
	// from 0: its ZooKeeper data version.
	Version int32
	// Declared reports that the job is as an application's code declared it
	// (Manager.Schedule), with no operator's change on top.
	Declared bool
	State    State
	// Reason explains a State other than Owned, and names what to do.
	Reason string
	// Owner is what the owner record says: nil when it names nobody. An owner
	// that has died is named until it is replaced; the State is Unowned then.
	Owner *Owner
	// Registered lists the instances, sorted, that said they have the
	// handler; dead ones included until they are cleaned up.
	Registered []string
	// NextRun is the next tick of the schedule that a pause does not stop; zero
	// when there is none.
	NextRun time.Time
	// LastRun is nil when the job never ran.
	LastRun *Run
	// Watermark is the tick up to which each was claimed or recorded as not run, by
	// every shard; zero when there was none yet.
	Watermark time.Time
	// Overdue is the first tick, of any shard, that nobody has accounted for
	// although it is late by AlarmAfter; zero when there is none. The ticks of a pause are due
	// when it is over, and a run that goes on excuses all.
	Overdue time.Time
	// Alarm is the last tick that an instance reported as missing; nil when none
	// ever was. It stays when the tick was accounted for later on.
	Alarm *Alarm
	// Paused is the pause that is in force; nil when there is none.
	Paused *Pause
}

// Pause says since when a job is paused, and why. Times are on the clock of
// whoever paused it.
type Pause struct {
	Since  time.Time
	Until  time.Time // zero: until it is resumed
	By     string
	Reason string
	// Missed says what becomes of the ticks of the pause when it is over: "skip",
	// "once" or "all", as Job.Misfire.
	Missed string
}

// Alarm is a tick that was reported missing.
type Alarm struct {
	Tick       time.Time
	InstanceID string    // that noticed; it does not own the job
	At         time.Time // on its clock
}

// Owner is the instance that owns a job.
type Owner struct {
	InstanceID string
	// Token is the fencing token of this ownership: it grows with every
	// adoption.
	Token int64
	// Since is when the job was adopted, on ZooKeeper's clock.
	Since time.Time
}

// Outcome says what a change did.
type Outcome string

// The outcomes of Submit, Set, Pause, Resume, and of orders to instances.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Changed   Outcome = "changed"
	Paused    Outcome = "paused"
	Resumed   Outcome = "resumed"
	Ordered   Outcome = "ordered"
	Enabled   Outcome = "enabled"
	Unchanged Outcome = "unchanged" // all was already exactly so
)

// SubmitOptions changes how Submit treats what it finds. The zero value
// creates a job and never changes one.
type SubmitOptions struct {
	// Replace changes a job that exists and differs, instead of ErrExists.
	Replace bool
	// DryRun checks and reports what would be done, and writes nothing.
	DryRun bool
}

// SubmitResult is what Submit or Set did, or would do in a dry run.
type SubmitResult struct {
	Outcome Outcome
	Job     JobStatus // as it is now
	// Before is the job as it was, when Outcome is Changed, or Replaced and its
	// record could be read.
	Before *Job
}

package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// EventKind is what happened.
type EventKind string

// The kinds of events. Run and Owner are those of Event.
const (
	// EventWatching is the first event: the state of the group was read, and what happens from now on
	// follows.
	EventWatching EventKind = "watching"

	EventJobSubmitted EventKind = "job_submitted" // it was created
	EventJobChanged   EventKind = "job_changed"   // its record was written: edited, paused, resumed, its shards changed, done
	EventJobCanceled  EventKind = "job_canceled"
	EventJobOwned     EventKind = "job_owned"   // Owner took it, from Previous if that is set
	EventJobUnowned   EventKind = "job_unowned" // Previous released it, or was found dead, and nobody took it yet

	// EventJobTrouble says that what is wrong with a job has changed, or that a slot of it is gone: it
	// is late, hangs or is invalid, or no longer is: see Status. It is what a reading has found, by
	// the group's time At, and is reported if WatchOptions.Trouble is set.
	EventJobTrouble EventKind = "job_trouble"

	EventRunBegun     EventKind = "run_begun"
	EventRunEnded     EventKind = "run_ended"     // Entry has its state and its error
	EventTicksSkipped EventKind = "ticks_skipped" // Entry is a row of ticks that were not run, with the reason
	EventTicksMissed  EventKind = "ticks_missed"  // likewise

	EventInstanceJoined EventKind = "instance_joined"
	EventInstanceLeft   EventKind = "instance_left"  // it stopped, or its session expired
	EventInstanceState  EventKind = "instance_state" // it is drained, disabled, active again, ...: see State

	// EventGap says that something happened that the records no longer tell: see Gap.
	EventGap EventKind = "gap"
)

// Event is something that happened in the group, according to the records. Fields that do not apply
// to its Kind are zero.
type Event struct {
	Kind EventKind `json:"event"`
	// Zxid is the number of the transaction that shows the event: the one in which it happened, or a
	// later one of the same record if the record was written again before it was read.
	Zxid int64 `json:"zxid"`
	// At is when that transaction was made, by ZooKeeper's clock; zero if it deleted something. Of a
	// run, or a row of ticks, that others followed before it was read, it is when it began or ended,
	// by the clock of the instance that wrote it.
	At time.Time `json:"at,omitzero"`
	// Cursor is where a later Watch can resume after this event: see WatchOptions.Since.
	Cursor int64 `json:"cursor"`

	// Job is the name of the job, or of the shard, such as "report[3]", or of a job that
	// runs on every instance, with the instance: "report/app-1".
	Job string `json:"job,omitempty"`
	// Version is that of the job's record, as JobStatus.Version, Paused whether the job is paused, and
	// Notify what its definition has of that name; of a job that was submitted or changed.
	Version int32                       `json:"version,omitempty"`
	Paused  bool                        `json:"paused,omitempty"`
	Notify  map[string][]job.NotifyKind `json:"notify,omitempty"`
	// Owner is the new owner of a job. Previous is the instance that owned it before.
	Owner    *Owner `json:"owner,omitempty"`
	Previous string `json:"previous,omitempty"`
	// Entry is the run, or the ticks that were not run.
	// If the end of a run was read together with its begin, both events have the Number and the Rev of
	// its entry.
	Entry *history.Entry `json:"entry,omitempty"`
	// Created is the transaction that created the record from which the Number and the Rev of Entry
	// count: another one if the job was canceled and submitted again.
	Created int64 `json:"created_zxid,omitempty"`
	// Continued means that the ticks continue a row that began earlier. Entry.Tick is the first tick
	// of that row, and Entry.Count the number of ticks that were not reported before; 0 if the row
	// began before the watch, so that the number is not known.
	Continued bool `json:"continued,omitempty"`
	// Amended means that the result of a run came late: an earlier event may have said that it was
	// interrupted. The event of a run that is told for the first time has it if another entry had
	// followed before the result came.
	Amended bool `json:"amended,omitempty"`
	// Superseded says of an amended result that another run of the slot has begun since, perhaps of
	// the same tick.
	Superseded bool `json:"superseded,omitempty"`

	// Status is how a job in trouble stands, or one that no longer is. Gone are the slots of it that
	// are no longer there, since the last event of this kind.
	Status *JobStatus `json:"status,omitempty"`
	Gone   []string   `json:"gone,omitempty"`

	// InstanceID and Incarnation are of an instance, State its state (InstanceActive ...), and
	// PreviousState the one before.
	InstanceID    string `json:"instance_id,omitempty"`
	Incarnation   string `json:"incarnation,omitempty"`
	State         string `json:"state,omitempty"`
	PreviousState string `json:"previous_state,omitempty"`

	// Unseen is how often the same record was written between the last event of this kind of record
	// and this event without having been read: changes of a job in quick succession, or owners between
	// Previous and Owner, of which none is often one, because a job that is handed over has no owner
	// for a moment.
	Unseen int `json:"unseen,omitempty"`
	// Repeated means that the event may have happened before WatchOptions.Since, and may have been
	// reported then.
	Repeated bool `json:"repeated,omitempty"`
	// Gap says what is not known.
	Gap *Gap `json:"gap,omitempty"`
}

// Gap is what the records no longer tell.
type Gap struct {
	What GapWhat `json:"what"`
	// After is the transaction after which it happened; it was over by the event's Zxid.
	After int64 `json:"after_zxid"`
	// Count is how many jobs or instances came and went unseen; 0 if that is not known.
	Count int `json:"count,omitempty"`
	// Error is why a record cannot be read.
	Error string `json:"error,omitempty"`
}

// GapWhat says of what something is not known.
type GapWhat string

// The kinds of gaps.
const (
	GapRuns      GapWhat = "runs"      // of Event.Job: its history has forgotten some, or was lost in a restore
	GapJobs      GapWhat = "jobs"      // jobs were canceled, or submitted and canceled
	GapInstances GapWhat = "instances" // instances left, or joined and left
	GapRecord    GapWhat = "record"    // a record of Event.Job or Event.InstanceID cannot be read: Error says why
	GapLost      GapWhat = "lost"      // ZooKeeper was restored, or emptied: it has lost some about Gap.After
)

package admin

import (
	"errors"
	"fmt"
	"time"
)

// Job is what a submitter asks for.
type Job struct {
	// Name identifies the job in its group: 1 to 200 bytes of printable
	// UTF-8 without '/', not ".", "..", nor beginning with '_'.
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
}

// State says in one word how a job is.
type State string

// The states of a job.
const (
	Owned   State = "owned"   // its owner lives
	Unowned State = "unowned" // nobody owns it now; JobStatus.Reason says why
	Invalid State = "invalid" // its record cannot be read or can never run; Reason says why
)

// JobStatus is a job and what the records say of it.
type JobStatus struct {
	Job
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
	// NextRun is the next tick of the schedule; zero when there is none.
	NextRun time.Time
	// LastRun is nil when the job never ran.
	LastRun *LastRun
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

// LastRun is the last claimed tick of a job and what became of it.
type LastRun struct {
	Tick       time.Time
	State      string // running, ok, failed or interrupted
	InstanceID string
	Token      int64
	RunID      string
	Attempt    int
	Started    time.Time // on the owner's clock
	Ended      time.Time // on the owner's clock; zero while it runs
	Error      string    // at most 4 KiB
}

// Instance is one running instance of the group.
type Instance struct {
	ID          string
	Incarnation string // a new one at each start
	Host        string
	PID         int
	StartedAt   time.Time
	Version     string
	Owned       int    // slots it owns, by the owner records
	State       string // active or stopping
}

// Outcome says what a Submit did.
type Outcome string

// The outcomes of Submit.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the job was already exactly this
)

// SubmitOptions changes how Submit treats what it finds. The zero value
// creates a job and never changes one.
type SubmitOptions struct {
	// Replace changes a job that exists and differs, instead of ErrExists.
	Replace bool
	// DryRun checks and reports what would be done, and writes nothing.
	DryRun bool
}

// SubmitResult is what Submit did, or would do in a dry run.
type SubmitResult struct {
	Outcome Outcome
	Job     JobStatus // as it is now
	// Before is the job as it was, when Outcome is Replaced and its record
	// could be read.
	Before *Job
}

// Sentinels for callers to branch on with errors.Is.
var (
	// ErrNotFound: no such job.
	ErrNotFound = errors.New("no such job")
	// ErrExists: Submit found another job of that name and was not told to
	// replace it.
	ErrExists = errors.New("job exists and differs")
	// ErrConflict: the job kept changing while it was being changed.
	ErrConflict = errors.New("changed by someone else at the same time")
	// ErrDenied: ZooKeeper's ACLs refused the call.
	ErrDenied = errors.New("ZooKeeper refused access")
	// ErrUnavailable: no ZooKeeper server answered before the context ended. The
	// error says so when a change may have been made all the same.
	ErrUnavailable = errors.New("ZooKeeper did not answer")
)

// InvalidError refuses input: a job, or a Config.
type InvalidError struct {
	Field string // "Name", "Schedule", "TimeZone", "Handler", "Args", "Servers" ...
	Value string
	Err   error // what is wrong; for a Schedule, a *cronexpr.Error
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.Field, e.Value, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }

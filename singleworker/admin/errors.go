package admin

import (
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Sentinels for callers to branch on with errors.Is.
var (
	// ErrNotFound: no such job.
	ErrNotFound = errors.New("no such job")
	// ErrNoShard: the job has no such shard now.
	ErrNoShard = errors.New("no such shard")
	// ErrExists: Submit found another job of that name and was not told to
	// replace it.
	ErrExists = errors.New("job exists and differs")
	// ErrUnreadable: the job's record holds garbage, or a newer version wrote it,
	// so that it cannot be changed in part.
	ErrUnreadable = errors.New("the job's record cannot be read")
	// ErrNoHandler: no instance that lives can run the job.
	ErrNoHandler = errors.New("no instance can run it")
	// ErrBusy: as many requests wait at the job as may: 10.
	ErrBusy = errors.New("too many requests wait already")
	// ErrNotRunning: there is no run to stop, or another one.
	ErrNotRunning = errors.New("it is not running")
	// ErrNoInstance: no instance of that id runs.
	ErrNoInstance = errors.New("no such instance runs")
	// ErrNotDraining: the instance that was waited for is active.
	ErrNotDraining = errors.New("it was enabled, or started again")
	// ErrConflict: the job, or the order, kept changing while it was being changed.
	ErrConflict = errors.New("changed by someone else at the same time")
	// ErrDenied: ZooKeeper's ACLs refused the call.
	ErrDenied = zkconn.ErrDenied
	// ErrUnavailable: no ZooKeeper server answered before the context ended. The
	// error says so when a change may have been made all the same.
	ErrUnavailable = zkconn.ErrUnavailable
)

// InvalidError refuses a field of a Config or of options. Those of a job are
// refused with a *job.FieldError.
type InvalidError struct {
	Field string // "Servers", "Until" ...
	Value string
	Err   error // what is wrong
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.Field, e.Value, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }

// checkName refuses what is not the name of a job.
func checkName(name string) error {
	if err := job.CheckName(name); err != nil {
		return &job.FieldError{Field: "Name", Value: name, Err: err}
	}
	return nil
}

package admin

import (
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Sentinels for callers to branch on with errors.Is.
var (
	// ErrNotFound means that the job does not exist. If it was canceled lately, the error is a
	// *CanceledError.
	ErrNotFound = errors.New("no such job")
	// ErrNoShard means that the job does not have the shard now.
	ErrNoShard = errors.New("no such shard")
	// ErrNoVersion means that the version of the job is not kept, or never was.
	ErrNoVersion = errors.New("no such version")
	// ErrExists means that Submit found a different job of that name and Replace
	// was not set.
	ErrExists = errors.New("job exists and differs")
	// ErrUnreadable means that a record of the job is garbage or was written by a
	// newer version.
	ErrUnreadable = errors.New("the job's record cannot be read")
	// ErrNoHandler means that no live instance can run the job.
	ErrNoHandler = errors.New("no instance can run the job")
	// ErrBusy means that the job has the maximum of 10 pending requests.
	ErrBusy = errors.New("too many pending requests")
	// ErrTickDone means that a past tick is ok, or may have been, and TriggerOptions.Again is not
	// set.
	ErrTickDone = errors.New("tick has been run")
	// ErrTickOpen means that a past tick is in progress, or that another attempt at it is to come.
	ErrTickOpen = errors.New("tick is being run")
	// ErrNotRunning means that there is no run to stop, or a different one.
	ErrNotRunning = errors.New("job is not running")
	// ErrNoInstance means that no instance with that ID is running.
	ErrNoInstance = errors.New("no such instance is running")
	// ErrNotDraining means that the instance is active: it was enabled or restarted.
	ErrNotDraining = errors.New("instance is not draining: it was enabled or restarted")
	// ErrTooManyOrders means that the group has 1000 orders for one job or for a host, which every
	// instance reads.
	ErrTooManyOrders = errors.New("too many orders for jobs and hosts")
	// ErrConflict means that concurrent changes of the job, or the order, did not
	// stop.
	ErrConflict = errors.New("changed by someone else at the same time")
	// ErrFull means that the names of the group's jobs have nearly 8 MiB, the longest list that a
	// client reads: further jobs belong to another server type, or below another chroot.
	ErrFull = listing.ErrFull
	// ErrTooLong means that a node has so many children that they are not listed: their names have
	// more than 8 MiB.
	ErrTooLong = zkconn.ErrTooLong
	// ErrTooLarge means that a transaction would have more than 900 kB, which ZooKeeper does not take.
	ErrTooLarge = errors.New("too much for one transaction")
	// ErrDenied means that ZooKeeper's ACLs refused the call.
	ErrDenied = zkconn.ErrDenied
	// ErrOpenACL means that anybody who reaches ZooKeeper may change the group's nodes, although
	// Config.Auth is set. A Client without Config.ACL creates no nodes then. The error says how to
	// mend that.
	ErrOpenACL = zkconn.ErrOpenACL
	// ErrNoRoles means that nobody has called SetRoles for the group: its nodes belong to whom
	// Config.Auth and Config.ACL of the instances say.
	ErrNoRoles = errors.New("the group has no roles")
	// ErrCutOff means that roles would cut off an instance that runs, or the caller.
	ErrCutOff = errors.New("would be cut off")
	// ErrUnavailable means that no ZooKeeper server answered before the context was
	// done. The error's text says if a change may have been made nevertheless.
	ErrUnavailable = zkconn.ErrUnavailable
)

// checkName refuses what is not the name of a job.
func checkName(name string) error {
	if err := job.CheckName(name); err != nil {
		return job.Invalid("Name", name, err)
	}
	return nil
}

// checkSlot refuses a name that no job, shard, or job at an instance can have.
func checkSlot(name string) error {
	if _, sid, part := zkrec.SplitInstance(name); part {
		if err := job.CheckNodeName(sid); err != nil {
			return job.Invalid("Name", name, fmt.Errorf("names a job at an instance whose ID %w", err))
		}
	}
	return checkName(zkrec.JobOfSlot(name))
}

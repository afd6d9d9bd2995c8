package singleworker

import (
	"errors"
	"strings"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Causes with which a run's context is canceled: compare context.Cause(ctx) with
// errors.Is.
var (
	// ErrLeaseLost means that the lease on the job ended, or the job is about to
	// pass to another instance. Stop at once, and write nothing more.
	ErrLeaseLost = leases.ErrLost
	// ErrStopping means that the instance is stopping and Config.StopGrace is over,
	// or that Run ends with an error, in which case there is no grace period.
	ErrStopping = runner.ErrStopping
	// ErrJobCanceled means that the job was deleted.
	ErrJobCanceled = owner.ErrCanceled
	// ErrTimeout means that the run exceeded Job.Timeout.
	ErrTimeout = runner.ErrTimeout
	// ErrStopped means that an operator stopped the run.
	ErrStopped = runner.ErrStopped
	// ErrMoved means that the job always runs (@always), and moves to another instance, or was
	// changed. It runs again as soon as this run has ended.
	ErrMoved = runner.ErrMoved
)

// ErrRefuseTick is returned by the handler of Job.BeforeTick, as it is or wrapped, to refuse a
// tick: no shard runs it, and it is not retried. The history has the text of the error.
var ErrRefuseTick = runner.ErrRefused

// Errors of Manager.Run.
var (
	// ErrDuplicateInstance is returned if a live instance of the group has the same
	// InstanceID. Run first waits 3.5 session timeouts, the other instance's or
	// its own, whichever is longer, in case the other has just died; and again
	// after each loss of the connection.
	ErrDuplicateInstance = member.ErrDuplicate
	// ErrAccessDenied is returned if ZooKeeper's ACLs refuse Config.Auth.
	ErrAccessDenied = zkconn.ErrDenied
	// ErrOpenACL is returned if Config.Auth or Config.ACL is set, and anybody who
	// reaches ZooKeeper may change the group's nodes nevertheless, because they were
	// created before or by somebody else. The error names the node and the remedy.
	ErrOpenACL = zkconn.ErrOpenACL
	// ErrMode is returned if a live instance of the group has another Config.Mode.
	// Run first waits as for ErrDuplicateInstance.
	ErrMode = member.ErrMode
	// ErrNotHandedBack is returned if ZooKeeper was unreachable while the instance
	// stopped. Its jobs are taken over when its session ends.
	ErrNotHandedBack = coord.ErrNotHandedBack
)

// Errors of Manager.ScheduleContext on a running Manager.
var (
	// ErrNewerVersion is returned if a newer Config.Version decides on the job.
	ErrNewerVersion = member.ErrNewer
	// ErrFull is returned if the names of the group's jobs have nearly 8 MiB. It is admin.ErrFull,
	// too.
	ErrFull = listing.ErrFull
	// ErrUnavailable is returned if no ZooKeeper server answered before the context was done. The job
	// may have been declared nevertheless. It is admin.ErrUnavailable, too.
	ErrUnavailable = zkconn.ErrUnavailable
)

// ErrStarted is returned by Run if it was called before.
var ErrStarted = errors.New("singleworker: manager already started")

// ErrNotRunning is returned by the methods of a Manager that need a running one, and by the methods
// of the admin.Client on it, before Run was called and after it has ended.
var ErrNotRunning = errors.New("singleworker: manager not running")

// StuckError is returned by Run if handlers have not returned 5 s after their
// contexts were canceled. Their goroutines still exist.
type StuckError struct {
	Jobs []string // by slot: a job, or a shard such as "report[3]"
}

func (e *StuckError) Error() string {
	return "singleworker: handlers still running after their context was canceled: " + strings.Join(e.Jobs, ", ")
}

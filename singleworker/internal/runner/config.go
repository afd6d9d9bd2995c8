package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// Keeper writes the records of jobs. Its methods must not block. Each done is called once, or once
// for each commit, on any goroutine, perhaps before the method returns.
type Keeper interface {
	// Commit writes decisions, which are the keeper's from then on, in as few transactions as they
	// fit; done gets the index of each, and the record as it is then. One fails with
	// ticks.ErrConflict, and the record, when that is not From; with ticks.ErrNoRequest when the
	// manual run to be opened was canceled; with ticks.ErrSpecChanged when the spec has changed, which
	// Own is about to tell; or when the job is no longer owned. With ticks.ErrWithheld it was written.
	Commit(all []*ticks.Commit, done func(i int, current *ticks.Record, err error))
	// Amend corrects the history entry of a run that another owner recorded as interrupted or lost.
	Amend(job string, e ticks.Entry, done func(err error))
	// History reads the history of a job, the oldest entry first.
	History(job string, done func(entries []ticks.Entry, err error))
	// LeaveLine tells that the job no longer waits for places of limits, for which a Commit was
	// refused with ticks.ErrLimited.
	LeaveLine(job string)
	// Drop removes a completed request.
	Drop(job, request string)
	// Stack keeps where the handler of a run is that does not end.
	Stack(job, runID, text string)
}

// Observer is notified of the fates of ticks, from the runs' goroutines and from the loop.
type Observer interface {
	Started(r Run)
	Ended(r Result)
	// Refused is called when a run could not be claimed.
	Refused(job string, err error)
	// Hung is called once when a run in progress counts as hung. 95% of those before it took usual at
	// most; 0: that is not known.
	Hung(r Run, usual time.Duration)
	// Recorded is called after entries were written to the history of the job.
	Recorded(job string, entries []ticks.Entry)
}

// Job is a job, or a shard of one, that this instance owns.
type Job struct {
	*ticks.Job // shared with others: not changed
	Name       string
	Handle     func(ctx context.Context, r Run) error
	Before     func(ctx context.Context, r Run) error // BeforeTick, in the first shard of a job that has it; else nil
	// Resolve tells whether the effects of an attempt before are there. Nil: nobody does.
	Resolve  func(ctx context.Context, r Run) (effects history.Effects, found bool, err error)
	Lease    *leases.Lease
	Since    time.Time     // when this instance acquired it
	From     string        // the owner that it was taken from because that had not claimed a run in time
	Record   *ticks.Record // as it was then; shared with others: not changed
	Requests []ticks.Request
	Gate     *ticks.Gate // of a slot that waits for others; nil: nothing is known of them
}

// Config configures a Runner. Keeper, Observer and Logger are required.
type Config struct {
	InstanceID string
	Keeper     Keeper
	Observer   Observer
	Grace      time.Duration  // how long running handlers may continue after Stop
	MaxRunning int            // how many runs may be in progress; 0: no limit
	Wall       wall.Clock     // nil: the machine's
	Chance     *chance.Source // nil: the machine's
	Logger     *slog.Logger
}

// Run is one execution of a handler for a claimed tick, as it was claimed. Its Tick is in the zone
// of the job's schedule.
type Run struct {
	Job string
	history.Run

	Due     time.Time      // later than the Tick by the job's Jitter
	Request *ticks.Request // nil for a scheduled run
}

// Result is how a run ended.
type Result struct {
	Run
	Err error // nil when State is StateOK
	// Unrecorded is why the result could not be written to ZooKeeper, nil if it was.
	Unrecorded error

	stop  ticks.Request // by which an operator has ended the run; zero if none has
	moved bool          // of a job that always runs: it is to run again at once, elsewhere or otherwise
}

// Causes with which a run's context is canceled.
var (
	// ErrStopping cancels runs that outlast the grace period of a stop.
	ErrStopping = errors.New("singleworker: instance is stopping")
	// ErrTimeout cancels runs that exceed their job's timeout.
	ErrTimeout = errors.New("singleworker: run timed out")
	// ErrStopped cancels runs that an operator has stopped.
	ErrStopped = errors.New("singleworker: stopped by an operator")
	// ErrMoved cancels the run of a job that always runs, because it moves or was changed.
	ErrMoved = errors.New("singleworker: job moves to another instance, or was changed")
)

// common is shared by the parts of a runner. The functions in box are run by the loop.
type common struct {
	cfg Config
	box *task.Mailbox
}

// after calls f on the loop when d has passed, unless the timer is stopped before. name is the
// job's, or "".
func (c *common) after(name string, d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(c.cfg.Chance.Apart("timer "+name, d), func() { c.box.Post(f) })
}

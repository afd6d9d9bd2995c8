package singleworker

import (
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Why a run's context ended: compare context.Cause(ctx) with errors.Is.
var (
	// ErrLeaseLost: the right to run the job ended, or is about to pass to
	// another instance. Stop at once, and write nothing more.
	ErrLeaseLost = leases.ErrLost
	// ErrStopping: the instance is stopping and Config.StopGrace is over; or Run
	// ends with an error, without it.
	ErrStopping = runner.ErrStopping
	// ErrJobCanceled: the job was deleted.
	ErrJobCanceled = owner.ErrCanceled
	// ErrTimeout: the run has lasted longer than Job.Timeout.
	ErrTimeout = runner.ErrTimeout
	// ErrStopped: an operator has stopped the run.
	ErrStopped = runner.ErrStopped
)

// What Manager.Run returns, besides nil.
var (
	// ErrDuplicateInstance: a live instance of the group has the same
	// InstanceID. It was waited for, for 1.5 session timeouts: its own, or this
	// instance's if that is longer.
	ErrDuplicateInstance = member.ErrDuplicate
	// ErrAccessDenied: ZooKeeper's ACLs refuse Config.Auth.
	ErrAccessDenied = zkconn.ErrDenied
	// ErrMode: a live instance of the group has another Config.Mode. It was
	// waited for as with ErrDuplicateInstance.
	ErrMode = member.ErrMode
	// ErrNotHandedBack: ZooKeeper was away while the instance stopped; its jobs
	// are taken over when its session ends.
	ErrNotHandedBack = coord.ErrNotHandedBack
)

// ErrStarted refuses Handle and Schedule after Run was called, and a second
// Run.
var ErrStarted = errors.New("singleworker: the manager has been started")

// StuckError is returned by Run when handlers go on 5 s after their contexts
// have ended. Their goroutines are still there.
type StuckError = runner.StuckError

// ConfigError refuses a field of a Config or a Job.
type ConfigError struct {
	Field string // such as "SessionTimeout" or "Job.Schedule"
	Value any
	Err   error // what is wrong with it, and what would be right
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("singleworker: %s %q: %v", e.Field, fmt.Sprint(e.Value), e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

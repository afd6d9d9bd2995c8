package singleworker

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// Hooks are told what happens to this instance's jobs. Every one may be nil.
// All are called one at a time from one goroutine, in the order of the events,
// beside the work and not in its way: a hook that blocks delays the hooks
// after it and nothing else. Manager.Run returns when the last has returned.
type Hooks struct {
	// OnOwned: the instance owns the job from now on.
	OnOwned func(Ownership)
	// OnReleased: it does not any more; cause is ErrLeaseLost,
	// ErrJobCanceled, or says that the job was handed over.
	OnReleased func(o Ownership, cause error)
	// OnRunStart: a tick is claimed, its handler is being called.
	OnRunStart func(RunInfo)
	// OnRunEnd: the run has ended and its result is recorded, if it can be. It
	// comes without an OnRunStart when the right to run ended during the claim.
	OnRunEnd func(RunResult)
	// OnTickSkipped: a tick came that was not run here; cause is ErrOverlap,
	// ErrClaimed, ErrNotOwner or ErrLeaseLost.
	OnTickSkipped func(job string, tick time.Time, cause error)
}

// Ownership is a job that this instance owns.
type Ownership struct {
	Job   string
	Token int64
}

// RunInfo describes a run.
type RunInfo struct {
	ID      string
	Job     string
	Tick    time.Time
	Attempt int
	Token   int64
	Started time.Time
}

// RunResult is how a run ended.
type RunResult struct {
	RunInfo
	Ended time.Time
	State string // ok, failed or interrupted
	Err   error  // nil when State is ok
}

// hookCaller calls the hooks from one goroutine.
type hookCaller struct {
	hooks Hooks
	box   *task.Mailbox
}

func newHookCaller(hooks Hooks) *hookCaller {
	return &hookCaller{hooks: hooks, box: task.NewMailbox()}
}

// run calls hooks until ctx is done, and then those that are still queued.
func (h *hookCaller) run(ctx context.Context) error {
	for {
		select {
		case <-h.box.Ready():
			h.box.Run()
		case <-ctx.Done():
			h.box.Run()
			return nil
		}
	}
}

func (h *hookCaller) owned(o Ownership) {
	if f := h.hooks.OnOwned; f != nil {
		h.box.Post(func() { f(o) })
	}
}

func (h *hookCaller) released(o Ownership, cause error) {
	if f := h.hooks.OnReleased; f != nil {
		h.box.Post(func() { f(o, cause) })
	}
}

func (h *hookCaller) runStarted(info RunInfo) {
	if f := h.hooks.OnRunStart; f != nil {
		h.box.Post(func() { f(info) })
	}
}

func (h *hookCaller) runEnded(result RunResult) {
	if f := h.hooks.OnRunEnd; f != nil {
		h.box.Post(func() { f(result) })
	}
}

func (h *hookCaller) skipped(job string, tick time.Time, cause error) {
	if f := h.hooks.OnTickSkipped; f != nil {
		h.box.Post(func() { f(job, tick, cause) })
	}
}

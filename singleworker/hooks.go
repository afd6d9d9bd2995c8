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
// One that panics, or ends its goroutine, stops the instance as the end of Run's
// context does, but without Config.StopGrace: running handlers' contexts end at
// once, with ErrStopping, and what is owned is handed over when they have
// returned. Run returns the panic, and no further hook is called.
type Hooks struct {
	// OnOwned: the instance owns the job from now on.
	OnOwned func(Ownership)
	// OnReleased: it does not any more; cause is ErrLeaseLost,
	// ErrJobCanceled, or says, for people, that the job was handed over or that
	// its shard is no more.
	OnReleased func(o Ownership, cause error)
	// OnRunStart: a tick is claimed, its handler is being called.
	OnRunStart func(RunInfo)
	// OnRunEnd: the run has ended and its result is recorded, if it can be. It
	// comes without an OnRunStart when the right to run ended during the claim.
	OnRunEnd func(RunResult)
	// OnRecorded: an entry was written to the history of a job that this
	// instance owns, which keeps the last 20: here is the place to keep more of
	// them elsewhere. Every tick of a job comes in the entries of its owners,
	// its last entry says what became of it. If the instance dies between the
	// writing and the call, nobody is told; a result that comes late is told by
	// the instance that ran, after the next owner told of the run as interrupted.
	OnRecorded func(Entry)
	// OnTickMissed: a tick of a job, whoever owns it, was neither claimed nor
	// recorded as not run within Job.AlarmAfter. One instance of the group is
	// told, once for each such time of the job's: a dead man's switch for as
	// long as one instance lives.
	// Of a job with shards, job is a shard's name, such as "report[3]".
	OnTickMissed func(job string, tick time.Time)
	// OnTickComplete: all shards of a job are done with a tick that one of them
	// at least has run. One instance of the group is told, the owner of shard 0,
	// once for each tick, in their order; if it dies, or loses that shard, at
	// that moment, none. Nor is anybody told of a tick that is in no history any
	// more when the last shard is done with it: one shard has run for longer than
	// the others' histories, of 20 entries, go back.
	OnTickComplete func(TickResult)
}

// TickResult is what became of a tick of a job with shards.
type TickResult struct {
	Job  string
	Tick time.Time // in the local zone
	// Shards has, by index, the last entry of each shard for the tick. One whose
	// history does not go back that far any more has no State.
	Shards []Entry
}

// Ownership is a job, or a shard of it, that this instance owns.
type Ownership struct {
	Job   string
	Shard Shard
	Token int64
}

// RunInfo describes a run.
type RunInfo struct {
	ID      string
	Job     string
	Shard   Shard
	Tick    time.Time
	Manual  bool // an operator asked for it
	Attempt int
	Token   int64
	Started time.Time
}

// RunResult is how a run ended.
type RunResult struct {
	RunInfo
	Ended time.Time
	State State // StateOK, StateFailed, StateTimedOut or StateInterrupted
	Err   error // nil when State is StateOK
	// Unrecorded says why the result is not in ZooKeeper; nil when it is. The
	// job's next owner finds a run without a result, and deals with it as
	// Job.Interrupted says.
	Unrecorded error
}

// State says what became of a tick, or of one run of it.
type State string

// The states.
const (
	StateOK          State = "ok"
	StateFailed      State = "failed"
	StateTimedOut    State = "timed_out"
	StateInterrupted State = "interrupted" // before it was done: its instance stopped, died or lost the job, or an operator stopped it
	StateLost        State = "lost"        // as StateInterrupted, known from its absence, and not run again
	StateSkipped     State = "skipped"     // on purpose: see Entry.Reason
	StateMissed      State = "missed"      // nobody was there in time: see Entry.Reason
)

// Entry is a line of a job's history: the end of a run, or ticks in a row that
// were not run.
type Entry struct {
	Job   string
	Shard Shard
	// Tick is the scheduled time, or the first one of a row, whose last is To
	// and which has Count ticks; 10,000 stands for that many or more. The times
	// are in the local zone.
	Tick, To time.Time
	Count    int
	State    State
	// Reason of ticks that were not run: overlap, paused, no_owner, stalled or
	// schedule_changed.
	Reason string
	// Of a run; a tick that was not run has none of these.
	RunID   string
	Manual  bool
	Attempt int
	Started time.Time
	Ended   time.Time // of a tick that was not run: when that was recorded
	Error   string    // at most 4 KiB
	// InstanceID and Token are the run's, or of the owner that recorded it.
	InstanceID string
	Token      int64
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

func (h *hookCaller) recorded(e Entry) {
	if f := h.hooks.OnRecorded; f != nil {
		h.box.Post(func() { f(e) })
	}
}

func (h *hookCaller) tickComplete(r TickResult) {
	if f := h.hooks.OnTickComplete; f != nil {
		h.box.Post(func() { f(r) })
	}
}

func (h *hookCaller) tickMissed(job string, tick time.Time) {
	if f := h.hooks.OnTickMissed; f != nil {
		h.box.Post(func() { f(job, tick) })
	}
}

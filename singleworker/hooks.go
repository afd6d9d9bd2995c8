package singleworker

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// Hooks are called on events of this instance's jobs. Each may be nil. All are
// called one at a time from one goroutine, in the order of the events. That
// goroutine does nothing else: a hook that blocks delays only later hooks, and
// the return of Manager.Run. A hook that panics, or ends its goroutine, stops
// the instance like the end of Run's context, but without Config.StopGrace:
// handlers' contexts are canceled at once with ErrStopping, and slots are handed
// over when the handlers have returned. Run returns the panic, and no further
// hook is called.
type Hooks struct {
	// OnOwned is called when the instance has acquired a job or a shard. It is no
	// election: an idle job may have been taken from an owner that is alive, and
	// that hears of it a moment later. For that, see package latch.
	OnOwned func(Ownership)
	// OnReleased is called when the instance no longer owns it. cause is
	// ErrLeaseLost, ErrJobCanceled, or an error that says that the job was handed
	// over or its shard removed.
	OnReleased func(o Ownership, cause error)
	// OnRunStart is called when a tick was claimed, before its handler is called.
	OnRunStart func(RunInfo)
	// OnRunEnd is called once after each OnRunStart, when the run has ended and its
	// result was recorded, or could not be. If the lease ended during the claim, the
	// handler was not called.
	OnRunEnd func(RunResult)
	// OnRunHung is called once for a run of this instance that takes so long that it seems to hang:
	// when "swctl list" and admin.JobStatus begin to say so, see admin.Hung and Job.HungAfter. Nothing
	// ends the run; OnRunEnd is called if it ends. A run that hangs together with its process tells
	// nobody here: package notify does.
	OnRunHung func(HungRun)
	// OnRecorded is called when an entry was written to the history of a job that
	// this instance owns. ZooKeeper keeps the last 20 entries; store them
	// elsewhere to keep more. Together, the job's owners report every tick; its
	// last entry is its outcome. If the instance dies between the write and the
	// call, the entry is not reported. A late result is reported by the
	// instance that ran it, after the next owner reported the run as interrupted.
	OnRecorded func(Recorded)
	// OnTickMissed is called when a tick of any job of the group was neither
	// claimed nor recorded as not run within Job.AlarmAfter. One instance of the
	// group is called, once per episode: a dead man's switch that works as long as
	// one instance lives.
	OnTickMissed func(Missed)
	// OnTickComplete is called when all shards of a job have finished a tick that
	// at least one of them has run. It is called on one instance, the owner of
	// shard 0, once per tick and in order. A tick is not reported if that instance
	// dies or loses the shard at that moment, or if the tick is in no history when
	// the last shard finishes it, because that shard ran for longer than the
	// others' histories, of 20 entries, go back; nor is one that Job.BeforeTick has refused.
	OnTickComplete func(TickResult)
	// OnSession is called when the session with ZooKeeper begins, is suspended because the
	// connection is lost, continues because the connection is back, or has expired. It is
	// for people and metrics; runs need no help, for their contexts end in time.
	OnSession func(SessionEvent)
	// OnLeadershipGained is called when a term of this instance as the leader of its
	// group begins, in latch mode. The jobs follow one by one: see OnOwned.
	OnLeadershipGained func(Leadership)
	// OnLeadershipLost is called once after each OnLeadershipGained, when the term is over.
	// cause is one of the errors of package latch: latch.ErrSuspended, say, or latch.ErrStopped if
	// the instance stops or is drained. After a short break the next term follows, and the jobs stay.
	OnLeadershipLost func(l Leadership, cause error)
	// OnClock is called when this instance's wall clock is found to differ from ZooKeeper's by more
	// than Config.MaxClockOffset, and when it is right again.
	OnClock func(Clock)
}

// Then returns hooks that call those of h and then those of next.
func (h Hooks) Then(next Hooks) Hooks {
	return Hooks{
		OnOwned: both(h.OnOwned, next.OnOwned), OnReleased: bothLost(h.OnReleased, next.OnReleased),
		OnRunStart: both(h.OnRunStart, next.OnRunStart), OnRunEnd: both(h.OnRunEnd, next.OnRunEnd),
		OnRunHung:  both(h.OnRunHung, next.OnRunHung),
		OnRecorded: both(h.OnRecorded, next.OnRecorded), OnTickMissed: both(h.OnTickMissed, next.OnTickMissed),
		OnTickComplete: both(h.OnTickComplete, next.OnTickComplete), OnClock: both(h.OnClock, next.OnClock), OnSession: both(h.OnSession, next.OnSession),
		OnLeadershipGained: both(h.OnLeadershipGained, next.OnLeadershipGained),
		OnLeadershipLost:   bothLost(h.OnLeadershipLost, next.OnLeadershipLost),
	}
}

// both calls those of two hooks that are set.
func both[T any](first, second func(T)) func(T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(event T) {
		first(event)
		second(event)
	}
}

func bothLost[T any](first, second func(T, error)) func(T, error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(what T, cause error) {
		first(what, cause)
		second(what, cause)
	}
}

// Missed is a tick that was not accounted for in time.
type Missed struct {
	Job   string
	Shard Shard // that missed it
	// InstanceID is that of the instance that missed it, of a job that runs on every instance; "" of
	// any other.
	InstanceID string
	// Tick is the scheduled time, in the local zone. For a job with an unreadable record, whose missed
	// ticks are unknown, it is when the record was written.
	Tick time.Time
}

// Clock says how wrong this instance's wall clock is.
type Clock struct {
	// Wrong means that the instance claims no ticks, unless ZooKeeper's clock is the wrong one.
	Wrong bool
	// Offset is how far the clock is ahead of ZooKeeper's (negative: behind), give or take Bound.
	Offset, Bound time.Duration
}

// TickResult is the outcome of a tick of a job with shards.
type TickResult struct {
	Job  string
	Tick time.Time
	// Shards has, by index, the last entry of each shard for the tick. State is
	// empty if the shard's history does not go back that far.
	Shards []history.Entry
}

// Ownership is a job, or a shard of it, that this instance owns.
type Ownership struct {
	Job   string
	Shard Shard
	Token int64
}

// SessionState is the state of an instance's session with ZooKeeper.
type SessionState string

// The states of a session. In a SessionEvent, SessionReconnected says that a suspended session
// continues; the state is SessionConnected then.
const (
	SessionConnecting  SessionState = "connecting"  // there was no session yet
	SessionConnected   SessionState = "connected"   // in a new session
	SessionSuspended   SessionState = "suspended"   // the connection is lost; nobody knows whether the session lives
	SessionReconnected SessionState = "reconnected" // connected again, in the same session
	SessionExpired     SessionState = "expired"     // the server said that the session is over; the next one is being opened
)

// SessionEvent is a change of the session.
type SessionEvent struct {
	State          SessionState
	At             time.Time     // when the instance noticed, by its clock
	SessionTimeout time.Duration // as the server granted it last
}

// Leadership is a term as the leader of a group in latch mode.
type Leadership struct {
	Token int64 // grows with every change of the leader
}

// RunInfo is a run of this instance.
type RunInfo struct {
	Job   string
	Shard Shard
	history.Run
}

// HungRun is a run in progress that seems to hang.
type HungRun struct {
	RunInfo
	// Usual is how long 95% of the runs in the history took at most; 0 if the history does not tell.
	Usual time.Duration
}

// RunResult is a run of this instance that has ended: its State is StateOK, StateFailed,
// StateTimedOut, StateInterrupted or StateRefused.
type RunResult struct {
	RunInfo
	Err error // nil when State is StateOK
	// Unrecorded is why the result could not be written to ZooKeeper, nil if it
	// was. The job's next owner finds a run without a result and treats it
	// according to Job.Interrupted.
	Unrecorded error
}

// Recorded is an entry that was written to the history of a job. Of a run, InstanceID and Token
// tell who ran it, of ticks that were not run, who recorded that, and Ended when.
type Recorded struct {
	Job string
	history.Entry
}

// hookCaller calls the hooks from one goroutine.
type hookCaller struct {
	hooks Hooks
	box   *task.Mailbox
}

func newHookCaller(hooks Hooks) *hookCaller {
	return &hookCaller{hooks: hooks, box: task.NewMailbox()}
}

// run calls hooks until ctx is done, then those still queued.
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

func (h *hookCaller) runHung(r HungRun) {
	if f := h.hooks.OnRunHung; f != nil {
		h.box.Post(func() { f(r) })
	}
}

func (h *hookCaller) recorded(e Recorded) {
	if f := h.hooks.OnRecorded; f != nil {
		h.box.Post(func() { f(e) })
	}
}

func (h *hookCaller) tickComplete(r TickResult) {
	if f := h.hooks.OnTickComplete; f != nil {
		h.box.Post(func() { f(r) })
	}
}

func (h *hookCaller) session(e SessionEvent) {
	if f := h.hooks.OnSession; f != nil {
		h.box.Post(func() { f(e) })
	}
}

func (h *hookCaller) leadershipGained(l Leadership) {
	if f := h.hooks.OnLeadershipGained; f != nil {
		h.box.Post(func() { f(l) })
	}
}

func (h *hookCaller) leadershipLost(l Leadership, cause error) {
	if f := h.hooks.OnLeadershipLost; f != nil {
		h.box.Post(func() { f(l, cause) })
	}
}

func (h *hookCaller) tickMissed(m Missed) {
	if f := h.hooks.OnTickMissed; f != nil {
		h.box.Post(func() { f(m) })
	}
}

func (h *hookCaller) clock(c Clock) {
	if f := h.hooks.OnClock; f != nil {
		h.box.Post(func() { f(c) })
	}
}

package swtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// Run is one call of a handler, as the handler saw it.
type Run struct {
	Instance *Instance
	singleworker.Run

	Started time.Time
	// RightEnded is when the run's context ended, and Cause why; zero if the handler
	// returned before. It may work until then and not longer.
	RightEnded time.Time
	Cause      error
	// Ended is when the handler returned, or was killed; zero while it is in progress.
	Ended  time.Time
	Err    error
	Killed bool
}

// End is when the run lost its right or returned; zero while it is in progress.
func (r *Run) End() time.Time {
	if !r.RightEnded.IsZero() && (r.Ended.IsZero() || r.RightEnded.Before(r.Ended)) {
		return r.RightEnded
	}
	return r.Ended
}

// Runs lists the runs so far, in the order of their starts. The copies do not change.
func (c *Cluster) Runs() []Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := make([]Run, len(c.runs))
	for k, r := range c.runs {
		runs[k] = *r
	}
	return runs
}

// Befores lists the calls of Setup.Before so far, as Runs lists calls of handlers.
func (c *Cluster) Befores() []Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	befores := make([]Run, len(c.befores))
	for k, r := range c.befores {
		befores[k] = *r
	}
	return befores
}

// Evidence is the runs of all jobs in the form for package audit. A run ends with its right to run.
// Shard 0 goes by the name of the job, so that it is compared with runs from before the job had
// shards.
func (c *Cluster) Evidence() []audit.Run {
	var runs []audit.Run
	for _, r := range c.Runs() {
		part := r.Job
		if r.Everywhere {
			part = zkrec.InstanceSlot(r.Job, r.InstanceID)
		}
		if r.Shard.Index > 0 {
			part = zkrec.ShardSlot(r.Job, r.Shard.Index)
		}
		runs = append(runs, audit.Run{
			Job: part, Instance: r.Instance.Name, Tick: r.Tick, Attempt: r.Attempt, Token: r.Token, Start: r.Started, End: r.End(),
		})
	}
	return runs
}

// errNoReturn is the result of a handler that panicked, or ended its goroutine.
var errNoReturn = errors.New("handler did not return")

// recorded records the calls of a handler in a list of the cluster's, and ends them with a kill.
func (i *Instance) recorded(h singleworker.Handler, in *[]*Run) singleworker.Handler {
	c := i.cluster
	return func(ctx context.Context, run *singleworker.Run) error {
		r := &Run{Instance: i, Run: *run, Started: time.Now()}
		if !c.started(r, in) {
			return errKilled // a dead instance calls no handler
		}
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(i.life, func() { cancel(errKilled) })()
		defer context.AfterFunc(ctx, func() { c.rightEnded(r, ctx) })()
		err := errNoReturn
		defer func() { c.ended(r, ctx, err) }()
		err = h(inner, run)
		return err
	}
}

// started records a run unless its instance is dead.
func (c *Cluster) started(r *Run, in *[]*Run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Instance.State() == Killed {
		return false
	}
	*in = append(*in, r)
	return true
}

func (c *Cluster) rightEnded(r *Run, ctx context.Context) { //nolint:revive // ctx is what it asks about
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.Killed && r.Ended.IsZero() && r.RightEnded.IsZero() {
		r.RightEnded, r.Cause = time.Now(), context.Cause(ctx)
	}
}

func (c *Cluster) ended(r *Run, ctx context.Context, err error) { //nolint:revive // as above
	if ctx.Err() != nil {
		c.rightEnded(r, ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.Killed {
		r.Ended, r.Err = time.Now(), err
	}
}

// killed ends the runs and the rights of an instance, at this moment.
func (c *Cluster) killed(i *Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rights {
		if now := time.Now(); r.Instance == i && r.Until.After(now) {
			r.Until = now
		}
	}
	for _, r := range slices.Concat(c.runs, c.befores) {
		if r.Instance == i && r.Ended.IsZero() {
			r.Killed, r.Ended, r.Err = true, time.Now(), errKilled
		}
	}
}

// whileAlive wraps hooks so that a dead instance calls none.
func (i *Instance) whileAlive(h singleworker.Hooks) singleworker.Hooks {
	h.OnReleased, h.OnLeadershipLost = lostUnlessKilled(i, h.OnReleased), lostUnlessKilled(i, h.OnLeadershipLost)
	h.OnLeadershipGained, h.OnSession = unlessKilled(i, h.OnLeadershipGained), unlessKilled(i, h.OnSession)
	h.OnOwned, h.OnRunStart, h.OnRunEnd = unlessKilled(i, h.OnOwned), unlessKilled(i, h.OnRunStart), unlessKilled(i, h.OnRunEnd)
	h.OnRecorded, h.OnTickComplete = unlessKilled(i, h.OnRecorded), unlessKilled(i, h.OnTickComplete)
	h.OnTickMissed, h.OnRunHung = unlessKilled(i, h.OnTickMissed), unlessKilled(i, h.OnRunHung)
	return h
}

func lostUnlessKilled[T any](i *Instance, hook func(T, error)) func(T, error) {
	if hook == nil {
		return nil
	}
	return func(what T, cause error) {
		if i.State() != Killed {
			hook(what, cause)
		}
	}
}

func unlessKilled[T any](i *Instance, hook func(T)) func(T) {
	if hook == nil {
		return nil
	}
	return func(event T) {
		if i.State() != Killed {
			hook(event)
		}
	}
}

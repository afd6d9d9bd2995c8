package swtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// Errors of Effects.AppendOnce.
var (
	// ErrDone means that an effect of that key is there.
	ErrDone = errors.New("swtest: done already")
	// ErrFenced means that a run of the slot with a larger token has appended an effect.
	ErrFenced = errors.New("swtest: fenced off")
)

// Effect is something that a run has done.
type Effect struct {
	Key      string // the application's
	Job      string
	Slot     string
	Tick     time.Time
	Token    int64
	Run      string // its ID
	Instance string
	Time     time.Time

	request string // of a manual run
}

// String is the effect in a line.
func (e Effect) String() string {
	return fmt.Sprintf("%q of %s, tick %s, by a run on %s with token %d at %s", e.Key, e.Slot, clock(e.Tick), e.Instance, e.Token, clock(e.Time))
}

// clock is a time of a scenario, which begins on 1 January 2000.
func clock(t time.Time) string { return t.UTC().Format("02T15:04:05.000") }

// Effects is a fake of an outside system to which handlers append: a table of charges, an outbox. A
// killed process appends nothing. [Explore] expects that
//
//   - no key is appended twice for one tick of a slot,
//   - no run of a slot appends after a run with a larger token,
//   - the ticks of a slot come in their order, except for manual runs.
//
// Safe for concurrent use.
type Effects struct {
	world *World

	mu     sync.Mutex
	all    []Effect
	tokens map[string]int64 // the largest of each slot
	found  []finding
}

// Append appends an effect, whatever is there, as a mail is sent. When ctx is done, it appends
// nothing and returns the cause. It has the points "append" before and "appended" after it. Refused
// at the latter, the effect is there, and the answer is lost.
func (e *Effects) Append(ctx context.Context, run *singleworker.Run, key string) error {
	return e.append(ctx, run, key, func(Effect) error { return nil })
}

// AppendOnce appends an effect in the way of package once: not if one with that key is there, of
// whatever job and tick (ErrDone), and not after a run of the slot with a larger token (ErrFenced).
func (e *Effects) AppendOnce(ctx context.Context, run *singleworker.Run, key string) error {
	return e.append(ctx, run, key, func(x Effect) error {
		switch {
		case x.Token < e.tokens[x.Slot]:
			return ErrFenced
		case slices.ContainsFunc(e.all, func(other Effect) bool { return other.Key == key }):
			return ErrDone
		}
		return nil
	})
}

func (e *Effects) append(ctx context.Context, run *singleworker.Run, key string, may func(Effect) error) error {
	c := e.world.callOf(run) // found by the run: ctx may be any
	if err := c.at("append"); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := e.add(Effect{
		Key: key, Job: run.Job, Slot: run.Slot, Tick: run.Tick, Token: run.Token, Run: run.ID, Instance: run.InstanceID, Time: time.Now(), request: run.Request,
	}, may); err != nil {
		return err
	}
	return c.at("appended")
}

func (e *Effects) add(x Effect, may func(Effect) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := may(x); err != nil {
		return err
	}
	before := len(e.found)
	for _, other := range e.all {
		switch {
		case other.Slot != x.Slot:
		case other.Key == x.Key && other.Tick.Equal(x.Tick) && other.request == x.request:
			e.found = append(e.found, finding{"twice", fmt.Sprintf("twice: %v, and %v", other, x)})
		case other.Token > x.Token:
			e.found = append(e.found, finding{"fence", fmt.Sprintf("not fenced: %v, after %v", x, other)})
		case other.Tick.After(x.Tick) && other.request == "" && x.request == "":
			e.found = append(e.found, finding{"order", fmt.Sprintf("out of order: %v, after %v", x, other)})
		}
	}
	if before == 0 && len(e.found) > 0 {
		close(e.world.wrong)
	}
	if e.tokens == nil {
		e.tokens = make(map[string]int64)
	}
	e.tokens[x.Slot] = max(e.tokens[x.Slot], x.Token)
	e.all = append(e.all, x)
	return nil
}

// List lists the effects, in order.
func (e *Effects) List() []Effect {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Complete returns an error if one of the jobs has a tick, in one of its shards, that a handler has
// run without an error and that has no effect. For [Plan.Check].
func (w *World) Complete(jobs ...string) error {
	done := make(map[string]bool)
	for _, x := range w.Effects.List() {
		done[x.Slot+clock(x.Tick)] = true
	}
	for _, r := range w.group.Runs() {
		if r.Err == nil && !r.Killed && !r.Ended.IsZero() && slices.Contains(jobs, r.Job) && !done[r.Slot+clock(r.Tick)] {
			return fmt.Errorf("%s, tick %s: a run on %s returned nil at %s, and there is no effect", r.Slot, clock(r.Tick), r.Instance.Name, clock(r.Ended))
		}
	}
	return nil
}

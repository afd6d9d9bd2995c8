package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

const (
	// askTime is how long a resolver has to answer, with the wait for its turn.
	askTime = 10 * time.Second
	// askReturn is how much later it must have returned: after that nobody waits for it.
	askReturn = time.Second
	// maxAsks is how many are asked at a time: databases have few connections.
	maxAsks = 16
)

// errNotRepeated is of a run that has asked, and calls no handler: its tick is given up.
var errNotRepeated = errors.New("not run again")

// asks are the questions to the resolver. They have goroutines of their own: one that does not
// return is left behind, and its slot asks nothing more until it does.
type asks struct {
	turns chan struct{}

	mu   sync.Mutex
	open map[string]bool // by slot
}

func newAsks() *asks { return &asks{turns: make(chan struct{}, maxAsks), open: make(map[string]bool)} }

// begin reports whether the slot asks nothing yet. If so, it does until end.
func (a *asks) begin(slot string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[slot] {
		return false
	}
	a.open[slot] = true
	return true
}

func (a *asks) end(slot string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, slot)
}

// slots lists those whose resolvers have not returned.
func (a *asks) slots() (slots []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for slot := range a.open {
		slots = append(slots, slot)
	}
	return slots
}

type answer struct {
	effects history.Effects
	found   bool
	err     error
}

// ask asks the resolver, if the run has to. found means that the run is done. An error means that
// it is not to begin. ctx ends with the right to run.
func (e *execution) ask(ctx context.Context) (found bool, err error) {
	asks, ifAbsent, ifUnknown := e.claimed.Asks(*e.job.Policy)
	if !asks {
		return false, nil
	}
	a := answer{}
	if !e.beforePending() { // else no handler was called
		a = e.runs.ask(ctx, e)
	}
	log := e.runs.cfg.Logger.With("job", e.job.Name, "run_id", e.act.run.RunID, "tick", e.act.run.Tick, "attempt", e.act.run.Attempt)
	switch {
	case a.err == nil && a.found:
		e.effects = a.effects
		log.Info("effects of an interrupted run found", "by_run", a.effects.RunID, "by_instance", a.effects.InstanceID, "at", a.effects.At)
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case a.err == nil && ifAbsent:
		return false, nil
	case a.err == nil:
		return false, fmt.Errorf("%w: its effects are not there, and it was started as often as it may be, or is too old", errNotRepeated)
	}
	log.Warn("effects of an interrupted run not known", "runs_again", ifUnknown, "err", a.err)
	if ifUnknown {
		return false, nil
	}
	return false, fmt.Errorf("%w: whether its effects are there is not known: %w", errNotRepeated, a.err)
}

// ask waits for the resolver's answer to a run's question.
func (r *runs) ask(ctx context.Context, e *execution) answer {
	slot := e.job.Name
	if e.job.Resolve == nil {
		return answer{err: errors.New("this instance has no Config.Resolve")}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %v", askTime))
	defer cancel()
	select {
	case r.asks.turns <- struct{}{}:
		defer func() { <-r.asks.turns }()
	case <-ctx.Done():
		return answer{err: context.Cause(ctx)}
	}
	if !r.asks.begin(slot) {
		return answer{err: errors.New("the resolver has not returned since it was asked last")}
	}
	var a answer
	answers := make(chan answer, 1)
	r.tasks.GoThen("resolver", func(context.Context) (err error) {
		a.effects, a.found, err = e.job.Resolve(ctx, e.act.run)
		return err
	}, func(err error) {
		r.asks.end(slot)
		if a.err = err; err != nil && ctx.Err() != nil {
			a.err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		answers <- a
	})
	left := time.NewTimer(askTime + askReturn)
	defer left.Stop()
	select {
	case a := <-answers:
		return a
	case <-left.C:
		return answer{err: fmt.Errorf("no answer within %v, and the resolver goes on although its context has ended", askTime)}
	}
}

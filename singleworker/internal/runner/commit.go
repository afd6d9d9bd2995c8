package runner

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// decision is a decision of the loop in this turn that was not sent yet.
type decision struct {
	commit *ticks.Commit
	done   func(current *ticks.Record, err error)
}

// together is how many decisions are sent at once: those that fit in one transaction, which is on
// its way while the others are made.
const together = 500

// commit has the keeper write a decision, which is the keeper's from then on, together with the
// others of this turn.
func (r *Runner) commit(c *ticks.Commit, done func(current *ticks.Record, err error)) {
	if r.decided = append(r.decided, decision{c, done}); len(r.decided) == together {
		r.flush()
	}
}

// flush sends the decisions of this turn.
func (r *Runner) flush() {
	if len(r.decided) == 0 {
		return
	}
	all := make([]*ticks.Commit, len(r.decided))
	done := make([]func(*ticks.Record, error), len(r.decided))
	for i, d := range r.decided {
		all[i], done[i] = d.commit, d.done
	}
	clear(r.decided)
	r.decided = r.decided[:0]
	r.cfg.Keeper.Commit(all, func(i int, current *ticks.Record, err error) { done[i](current, err) })
}

// commitAlone is commit for a decision that is sent alone. It may be called by anybody.
func (r *Runner) commitAlone(c *ticks.Commit, done func(current *ticks.Record, err error)) {
	r.cfg.Keeper.Commit([]*ticks.Commit{c}, func(_ int, current *ticks.Record, err error) { done(current, err) })
}

// Results cost more than claims, and other instances claim at the same time. So results are held
// back for so long after a tick of that many jobs: until all have begun their runs, as a rule.
const (
	crowd       = 32
	resultsHeld = 35 * time.Millisecond
)

// holdBack begins to hold results back.
func (r *Runner) holdBack() {
	r.holds.Store(true)
	r.after("", resultsHeld, r.release)
}

// hold calls record, which records a result, now or when results are released.
func (r *Runner) hold(record func()) {
	if r.holds.Load() {
		r.held = append(r.held, record)
	} else {
		record()
	}
}

// release holds results back no longer.
func (r *Runner) release() {
	r.holds.Store(false)
	held := r.held
	r.held = nil
	for _, record := range held {
		record()
	}
}

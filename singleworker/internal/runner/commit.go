package runner

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// outbox has the keeper write decisions, all of one turn together, and results of a crowd a little
// later.
type outbox struct {
	*common
	decided []*ticks.Commit                          // in this turn, and not sent
	told    []func(current *ticks.Record, err error) // how each of them was written
	held    []func()                                 // record the results that are held back
	holds   atomic.Bool                              // results are held back; changed by the loop
	since   time.Time                                // when that began
	unbegun atomic.Int64                             // claims under way, and claimed runs that have not begun
}

// together is how many decisions are sent at once: those that fit in one transaction, which is on
// its way while the others are made.
const together = 500

// commit has the keeper write a decision, which is the keeper's from then on, together with the
// others of this turn.
func (o *outbox) commit(c *ticks.Commit, done func(current *ticks.Record, err error)) {
	o.decided, o.told = append(o.decided, c), append(o.told, done)
	if len(o.decided) == together {
		o.flush()
	}
}

// flush sends the decisions of this turn.
func (o *outbox) flush() {
	if len(o.decided) == 0 {
		return
	}
	all, done := slices.Clone(o.decided), slices.Clone(o.told)
	clear(o.decided)
	clear(o.told)
	o.decided, o.told = o.decided[:0], o.told[:0]
	o.cfg.Keeper.Commit(all, func(i int, current *ticks.Record, err error) { done[i](current, err) })
}

// commitAlone is commit for a decision that is sent alone. It may be called by anybody.
func (o *outbox) commitAlone(c *ticks.Commit, done func(current *ticks.Record, err error)) {
	o.cfg.Keeper.Commit([]*ticks.Commit{c}, func(_ int, current *ticks.Record, err error) { done(current, err) })
}

// Results cost more than claims, and other instances claim at the same time. So after a tick of
// that many jobs results are held back for so long, which is enough for others to begin their runs,
// as a rule, and until this instance has begun its own. A run whose result is held back is in
// progress for others. So a slow server has results held back for a limited time.
const (
	crowd       = 32
	resultsHeld = 60 * time.Millisecond
	longestHeld = 100 * time.Millisecond
)

// holdBack begins to hold results back.
func (o *outbox) holdBack() {
	o.since = time.Now()
	o.holds.Store(true)
	o.after("", resultsHeld, o.releaseIfDue)
	o.after("", longestHeld, o.releaseIfDue)
}

// begun notes that a claimed run begins, or that a claim was refused. It may be called by anybody.
func (o *outbox) begun() {
	if o.unbegun.Add(-1) == 0 && o.holds.Load() {
		o.box.Post(o.releaseIfDue)
	}
}

func (o *outbox) releaseIfDue() {
	held := time.Since(o.since)
	if o.holds.Load() && held >= resultsHeld && (o.unbegun.Load() == 0 || held >= longestHeld) {
		o.release()
	}
}

// hold calls record, which records a result, now or when results are released.
func (o *outbox) hold(record func()) {
	if o.holds.Load() {
		o.held = append(o.held, record)
	} else {
		record()
	}
}

// release holds results back no longer.
func (o *outbox) release() {
	o.holds.Store(false)
	held := o.held
	o.held = nil
	for _, record := range held {
		record()
	}
}

package effects

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

const (
	// apart is how long after its tick a run may end and still be read beside the markers of then.
	apart = time.Hour
	// clocks is more than the clocks of two instances differ by.
	clocks = 5 * time.Minute
	// maxListed is how many differences a Report lists.
	maxListed = 1000
	// maxHeld is how many ticks are held at once. More do not belong together.
	maxHeld = 1_000_000
)

// errStrangers says that a database and a log have hardly anything in common.
var errStrangers = errors.New("most ticks are on one side alone, so the database and the run log are not of the same group, or of other times")

// Compare compares the markers of a group with the runs of its log whose ticks are not before
// since, unless that is zero. It reads both twice at most, the log from the newest entry on, and
// writes nothing. It returns the errors of either side, and one if they are strangers.
func Compare(ctx context.Context, db Database, log runlog.Store, group string, since time.Time) (Report, error) {
	c := comparison{db: db, slots: make(map[string]*slot), held: make(map[key]*marker), ahead: make(map[key]bool), report: Report{Group: group, Differences: []Difference{}}}
	c.query = runlog.Query{Group: group}
	if !since.IsZero() {
		c.since, c.query.Since = since, since.Add(-clocks)
	}
	err := c.survey(ctx, log)
	if err == nil {
		err = c.run(ctx, log)
	}
	if err != nil {
		return Report{}, err
	}
	for _, k := range slices.SortedFunc(keysOf(c.held), key.compare) {
		c.alone(k, c.held[k])
	}
	slices.SortStableFunc(c.report.Differences, func(a, b Difference) int { return cmp.Or(b.Tick.Compare(a.Tick), cmp.Compare(a.Slot, b.Slot)) })
	return c.report, nil
}

// A key names a marker, without its step.
type key struct {
	slot    string
	tick    int64 // Unix milliseconds
	request string
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(other.tick, k.tick), cmp.Compare(k.slot, other.slot), cmp.Compare(k.request, other.request))
}

func keysOf(held map[key]*marker) iter.Seq[key] {
	return func(yield func(key) bool) {
		for k := range held {
			if !yield(k) {
				return
			}
		}
	}
}

// A marker is one whose run has not been read yet, with the outcome of another run of the tick.
type marker struct {
	Marker

	state history.State
}

// A slot is its bounds.
type slot struct {
	fence *Fence // nil: it does not use package once
	// Of the log: the job, the tick of its first entry, the beginning of its last run, and the times
	// that it lacks.
	job            string
	first, started time.Time
	holes          []hole
	gone           time.Time // the end of a hole that begins with the entry before
}

type hole struct{ from, to time.Time }

func (h hole) has(tick time.Time) bool { return !tick.Before(h.from) && !tick.After(h.to) }

type comparison struct {
	db     Database
	query  runlog.Query
	since  time.Time
	slots  map[string]*slot
	holes  []hole // of all slots
	held   map[key]*marker
	ahead  map[key]bool // ticks that are ok, of which the markers have not been read yet
	report Report
}

func (c *comparison) slot(name string) *slot {
	s := c.slots[name]
	if s == nil {
		s = &slot{}
		c.slots[name] = s
	}
	return s
}

// survey finds the bounds of all slots.
func (c *comparison) survey(ctx context.Context, log runlog.Store) error {
	fences, err := c.db.Fences(ctx, c.query.Group)
	if err != nil {
		return err
	}
	for _, f := range fences {
		c.slot(f.Slot).fence = &f
	}
	for e, err := range log.Entries(ctx, c.query) {
		if err != nil {
			return err
		}
		if e.Slot == "" {
			c.holes = append(c.holes, hole{e.Tick, e.To})
			continue
		}
		s := c.slot(e.Slot)
		s.job = e.Job
		s.survey(e)
	}
	for _, s := range c.slots {
		switch {
		case s.first.IsZero():
		case s.fence == nil:
			c.report.Others++
		default:
			c.report.Slots++
		}
	}
	return nil
}

// survey takes in the entry before those that it has taken in. A run of a past tick bounds nothing.
func (s *slot) survey(e runlog.Entry) {
	switch e.Kind {
	case runlog.Gone:
		s.gone = e.At
		return
	case runlog.Hole:
		s.holes = append(s.holes, hole{e.Tick, e.To})
		return
	case runlog.Ran, runlog.NotRun, runlog.Void, runlog.Mark:
	}
	if !s.gone.IsZero() {
		s.holes = append(s.holes, hole{e.Tick, s.gone})
		s.gone = time.Time{}
	}
	if e.Manual == "" || e.Started.Sub(e.Tick) <= apart {
		s.first = e.Tick
	}
	if e.Started.After(s.started) {
		s.started = e.Started
	}
}

// run reads both sides, side by side.
func (c *comparison) run(ctx context.Context, log runlog.Store) error {
	next, stop := iter.Pull2(c.db.Markers(ctx, c.query.Group))
	defer stop()
	m, err, more := next()
	pull := func(until time.Time) error {
		for ; more && err == nil && !m.Tick.Before(until) && !m.Tick.Before(c.since); m, err, more = next() {
			if err := c.take(m); err != nil {
				return err
			}
		}
		return err
	}
	for e, err := range log.Entries(ctx, c.query) {
		if err != nil {
			return err
		}
		s := c.slots[e.Slot]
		if e.Kind != runlog.Ran && e.Kind != runlog.NotRun || s == nil || s.fence == nil || e.Tick.Before(c.since) {
			continue
		}
		if e.At.Sub(e.Tick) <= apart {
			if err := pull(e.Tick); err != nil {
				return err
			}
		}
		if err := c.compare(ctx, e, s.fence, more && !m.Tick.Before(e.Tick)); err != nil {
			return err
		}
	}
	return pull(time.Time{})
}

// take takes in the next marker. The steps of a tick count as one.
func (c *comparison) take(m Marker) error {
	k := key{m.Slot, m.Tick.UnixMilli(), m.Request}
	if c.ahead[k] { // steps come after it, and do not matter then
		delete(c.ahead, k)
		c.report.Markers++
		return nil
	}
	if held := c.held[k]; held == nil || held.Step {
		c.held[k] = &marker{Marker: m}
	}
	if len(c.held) > maxHeld {
		return errStrangers
	}
	return nil
}

// compare looks for the marker of an entry of the log. unread says that it has not been read yet.
func (c *comparison) compare(ctx context.Context, e runlog.Entry, f *Fence, unread bool) error {
	keys := []key{{e.Slot, e.Tick.UnixMilli(), e.Manual}}
	if e.Manual != "" { // of a past tick, that has its key
		keys = append(keys, key{e.Slot, e.Tick.UnixMilli(), ""})
	}
	found := false
	for _, k := range keys {
		m := c.held[k]
		switch {
		case !e.Run.OK():
			if m != nil {
				m.state = cmp.Or(m.state, e.State)
			}
			continue
		case m != nil:
			found = true
			delete(c.held, k)
			if !m.Step {
				c.report.Markers++
			}
		case unread:
			c.ahead[k] = true
		}
	}
	if !e.Run.OK() || !f.covers(e) {
		return nil
	}
	for _, k := range keys { // in the database if another run of the tick was ok, too
		if !found {
			var err error
			if found, err = c.db.Has(ctx, c.query.Group, k.slot, e.Tick, k.request); err != nil {
				return err
			}
		}
	}
	c.report.Runs++
	c.bound(e.Tick)
	if !found {
		c.differ(Difference{Job: e.Job, Slot: e.Slot, Tick: e.Tick, Request: e.Manual, Missing: InDatabase, RunID: e.RunID, InstanceID: e.InstanceID, At: e.At})
	}
	return nil
}

// covers reports whether an ok run must have a marker.
func (f *Fence) covers(e runlog.Entry) bool {
	switch {
	case !f.Pruned.IsZero():
		return !e.Tick.Before(f.Pruned)
	case !f.First.IsZero():
		return !e.Tick.Before(f.First)
	}
	return e.Token >= f.Token // the owner that has raised it uses the package
}

// alone judges a marker for which there was no ok run.
func (c *comparison) alone(k key, m *marker) {
	s := c.slots[k.slot]
	switch {
	case m.Step, s == nil, s.first.IsZero(), m.Tick.Before(s.first), !m.At.Add(clocks).Before(s.started):
		return
	}
	for _, h := range slices.Concat(c.holes, s.holes) {
		if h.has(m.Tick) {
			return
		}
	}
	c.report.Markers++
	c.bound(m.Tick)
	c.differ(Difference{
		Job: s.job, Slot: k.slot, Tick: m.Tick, Request: k.request, Missing: InLog, RunID: m.RunID, InstanceID: m.InstanceID, At: m.At, State: m.state,
	})
}

func (c *comparison) bound(tick time.Time) {
	if c.report.From.IsZero() || tick.Before(c.report.From) {
		c.report.From = tick
	}
	if tick.After(c.report.To) {
		c.report.To = tick
	}
}

func (c *comparison) differ(d Difference) {
	if c.report.Found++; len(c.report.Differences) < maxListed {
		c.report.Differences = append(c.report.Differences, d)
	}
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// WatchOptions says what Watch reports. The zero value is everything from now on.
type WatchOptions struct {
	// Jobs are the names of the jobs to watch, whether they exist or not; then events of instances are
	// not reported, and a gap of jobs may be one of others. Default: all jobs, and the instances.
	Jobs []string
	// Since is the Cursor of an event up to which another Watch has reported everything: what happened
	// after it is reported first, as far as the records tell, before EventWatching. Events that may
	// have happened before are marked as Repeated: runs have IDs to tell. Of a job whose history has
	// forgotten entries, of cancellations and of instances that left, a gap is reported. If ZooKeeper
	// was restored since, or no longer has that transaction, a gap is all that is reported of the
	// past, and cursors begin again. Default: 0, which reports nothing of the past.
	Since int64
	// Trouble has EventJobTrouble reported, too: that a job is late, hangs or is invalid, or no longer
	// is. Those that are so when the Watch begins are reported before EventWatching, whatever Since
	// says. It costs a reading of all jobs at the beginning and after a reconnection, and then of each
	// job when its record changes, when it has a new trouble or an old one, and, if it runs in time,
	// once per AlarmAfter at most. Default: false.
	Trouble bool
	// Pause is how long changes are gathered before they are read. Longer means fewer requests, later
	// events, and more of them that share a reading. Default 250 ms.
	Pause time.Duration
}

const (
	defaultPause = 250 * time.Millisecond
	// watchAtOnce is how many jobs are read before their events are reported.
	watchAtOnce = 512
	// rootAgain is how often it is looked whether the group has come into being.
	rootAgain = time.Second
)

// Watch reports what happens in the group until ctx is done or the loop ends. The last element has
// the error that ended it: *invalid.FieldError for a name, *invalid.FieldError, ErrDenied, the
// cause of ctx, or ErrUnavailable if ctx ended while no server answered. While ZooKeeper is away,
// or after the session has expired, it waits, and resumes from what it has reported.
//
// Nothing is reported twice, and nothing is left out silently. Each run, each row of ticks that
// were not run, and each result of a job comes in order, also if the job ran many times while the
// connection was down, as far as its history reaches back. What that has forgotten, jobs and
// instances that came and went unseen, and records that cannot be read, are reported as EventGap.
// Of owners and of records of jobs only the last is known, and how many there were in between:
// Event.Unseen. A job that is canceled takes its history with it: what it did since its last event,
// at most Pause earlier while the connection was up, is not known. Events of different jobs come in
// the order of Event.Zxid if they were read together.
//
// It costs ZooKeeper three watches for each job or shard, and, for each change, a notification and
// a part of a bulk request; a result, or ticks that were not run, are a part of another one, for
// the history, which the begin of a run is not. A consumer that is slow delays the reading, and
// several changes meanwhile are read as one: memory does not grow. Each reconnection reads the
// records of all jobs again, and the histories that were written since.
func (c *Client) Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := o.check()
		if err == nil {
			err = newWatcher(c.members, o, yield).run(ctx)
		}
		if !errors.Is(err, errDone) {
			yield(Event{}, err)
		}
	}
}

func (o WatchOptions) check() error {
	for _, name := range o.Jobs {
		if err := checkName(name); err != nil {
			return err
		}
	}
	switch {
	case o.Since < 0:
		return &invalid.FieldError{Field: "Since", Value: strconv.FormatInt(o.Since, 10), Err: errors.New("is negative")}
	case o.Pause < 0 || o.Pause > time.Hour:
		return &invalid.FieldError{Field: "Pause", Value: o.Pause.String(), Err: errors.New("is not between 0 and 1h")}
	}
	return nil
}

// ears collect what has changed. Their size is bounded by that of the tree.
type ears struct {
	mu      sync.Mutex
	all     bool // the connection was lost, and with it the watches
	paths   map[string]struct{}
	changed chan struct{} // buffers one signal
}

func newEars() *ears {
	return &ears{all: true, paths: make(map[string]struct{}), changed: make(chan struct{}, 1)}
}

func (e *ears) hear(ev zkconn.Event) {
	switch ev.Kind {
	case zkconn.NodeChanged:
		e.note(ev.Path, false)
	case zkconn.Connected:
		e.note("", true)
	case zkconn.Disconnected, zkconn.Expired: // Connected follows
	}
}

// note has a node read again, or everything.
func (e *ears) note(path string, all bool) {
	e.mu.Lock()
	if e.all = e.all || all; !e.all {
		e.paths[path] = struct{}{}
	} else {
		clear(e.paths)
	}
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// take returns what has changed since it was last called.
func (e *ears) take() (paths map[string]struct{}, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	paths, all = e.paths, e.all
	e.paths, e.all = make(map[string]struct{}), false
	return paths, all
}

func (e *ears) quiet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.all && len(e.paths) == 0
}

// watcher is one Watch. What it knows is what it has reported.
type watcher struct {
	c     members
	ears  *ears
	yield func(Event, error) bool
	pause time.Duration

	only      map[string]bool // the jobs to watch; nil for all
	since     int64           // the cursor from which the first reading resumes; 0: none
	watching  bool            // the first reading is done
	again     bool            // it is not done before something that this round has read is read again
	jobs      map[string]*watchedJob
	instances map[string]watchedInstance
	others    map[string]bool // the other children of the root
	jobList   childList
	nodeList  childList

	histories *historyWatch // if whole histories are reported instead of events
	trouble   *troubleWatch // if EventJobTrouble is reported

	events []Event // that are not reported yet
	seen   int64   // the highest zxid of what was read
	cursor int64   // everything up to here was reported
}

func newWatcher(c members, o WatchOptions, yield func(Event, error) bool) *watcher {
	w := &watcher{
		c: c, ears: newEars(), yield: yield, pause: cmp.Or(o.Pause, defaultPause), since: o.Since, cursor: o.Since,
		jobs: make(map[string]*watchedJob), others: make(map[string]bool), instances: make(map[string]watchedInstance),
	}
	if len(o.Jobs) > 0 {
		w.only = make(map[string]bool)
		for _, name := range o.Jobs {
			w.only[name] = true
		}
	}
	if o.Trouble {
		w.trouble = &troubleWatch{}
	}
	return w
}

// run returns errDone when the consumer has had enough.
func (w *watcher) run(ctx context.Context) error {
	ctx, stop := w.c.conn.WhileOpen(ctx)
	defer stop()
	defer w.c.conn.Subscribe(w.ears.hear)()
	for {
		if err := w.c.conn.Retry(ctx, func() error { return w.round(ctx) }); err != nil {
			return err
		}
		var again, look <-chan time.Time
		if !w.jobList.found {
			again = time.After(rootAgain)
		}
		if w.trouble != nil && !w.trouble.next.IsZero() {
			look = time.After(time.Until(w.trouble.next))
		}
		select {
		case <-w.ears.changed:
		case <-look:
		case <-again:
			w.ears.note("", true)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-time.After(w.pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// round reads what has changed and reports the events. After an error everything is read again.
func (w *watcher) round(ctx context.Context) (err error) {
	paths, all := w.ears.take()
	w.again = false
	defer func() {
		if err != nil {
			w.ears.note("", true)
		}
	}()
	if all { // this may be another server, in a session that knows nothing of the one before
		if err := w.sync(ctx); err != nil {
			return err
		}
	}
	// A notification comes before any reply that shows its transaction or a later one. So all that
	// happened up to what was seen before this round is read in it; and up to what it has seen itself,
	// if nothing has changed meanwhile.
	safe := w.seen
	if err := w.read(ctx, paths, all); err != nil {
		return err
	}
	if err := w.readTroubles(ctx); err != nil {
		return err
	}
	if w.ears.quiet() {
		safe = w.seen
	}
	if !w.watching && !w.again {
		w.watching, w.since = true, 0
		w.tell(Event{Kind: EventWatching, Zxid: w.seen})
	}
	return w.report(max(w.cursor, safe))
}

// tell has an event reported.
func (w *watcher) tell(ev Event) {
	w.events = append(w.events, ev)
	w.suspect(ev)
}

// report reports the events. The last one, and those that follow, have the new cursor.
func (w *watcher) report(cursor int64) error {
	if w.histories != nil {
		return w.reportWhole(cursor)
	}
	events := w.events
	w.events = nil
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for i, ev := range events {
		ev.Cursor = w.cursor
		if i == len(events)-1 {
			ev.Cursor = cursor
		}
		if !w.yield(ev, nil) {
			return errDone
		}
	}
	w.cursor = cursor
	return nil
}

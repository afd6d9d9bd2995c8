package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// trouble is what is wrong with a slot, or with a whole job. It is comparable, and zero if nothing
// is wrong.
type trouble struct {
	invalid string // why it cannot run
	overdue int64  // the tick that is late
	hung    string // the run that hangs
}

// soon is how long after it may have got into trouble a job is looked at, and how long after a look
// at the earliest.
const soon = time.Second

func troubleOf(s JobStatus) (t trouble) {
	if s.State == StateInvalid {
		t.invalid = s.Reason.String()
	}
	if !s.Overdue.IsZero() {
		t.overdue = s.Overdue.UnixMilli()
	}
	if s.Hung != nil {
		t.hung = s.Hung.RunID
	}
	return t
}

// troubles are those of a job by the slots that have any.
func troubles(s JobStatus) map[string]trouble {
	all := make(map[string]trouble)
	for _, slot := range append([]JobStatus{s}, s.Slots...) {
		if t := troubleOf(slot); t != (trouble{}) {
			all[slot.Name] = t
		}
	}
	return all
}

// watchedTrouble is what was reported of the trouble of a job, and when it is looked at again.
type watchedTrouble struct {
	troubles  map[string]trouble // by slot
	gone      []string           // the slots that are gone since then
	hinges    bool               // whether it is late or hangs depends on who owns the run in progress, and lives
	look      time.Time          // zero: not before something happens
	hungAfter time.Duration      // how long no run hangs; 0: none ever does
}

// troubleWatch says when which job is looked at again. A job gets into trouble, or out of it, when
// its records change or when time passes, and only a full reading of it tells. A look that comes
// too early finds nothing and says when the next one is due. So a record that can only put trouble
// off causes no look: a job whose ticks all run in time is read once per AlarmAfter at most.
type troubleWatch struct {
	next time.Time // the earliest look of any job; zero: no job has one
}

// look has a job looked at then, or before.
func (w *watcher) look(job *watchedJob, at time.Time) {
	if w.trouble == nil || job == nil {
		return
	}
	if job.look.IsZero() || at.Before(job.look) {
		job.look = at
	}
	if next := &w.trouble.next; next.IsZero() || at.Before(*next) {
		*next = at
	}
}

// suspect has the jobs looked at whose trouble may begin or end by what an event tells.
func (w *watcher) suspect(ev Event) {
	switch {
	case w.trouble == nil, ev.Kind == EventJobTrouble:
	case ev.InstanceID != "":
		for name, job := range w.jobs {
			if len(job.troubles) > 0 || job.hinges || job.slots[zkrec.InstanceSlot(name, ev.InstanceID)] != nil {
				w.look(job, time.Now())
			}
		}
	case w.jobs[zkrec.JobOfSlot(ev.Job)] != nil:
		w.suspectJob(w.jobs[zkrec.JobOfSlot(ev.Job)], ev)
	}
}

func (w *watcher) suspectJob(job *watchedJob, ev Event) {
	now := time.Now()
	switch {
	case len(job.troubles) > 0, ev.Kind == EventJobSubmitted, ev.Kind == EventJobChanged, ev.Kind == EventGap:
		w.look(job, now)
	case job.hinges: // if the run has ended, its owner deals with the ticks that have come meanwhile
		w.look(job, now.Add(soon))
	case ev.Kind == EventRunBegun && job.hungAfter > 0:
		w.look(job, now.Add(job.hungAfter))
	}
}

// readTroubles looks at the jobs that are due, and reports those of which something else is wrong
// than was reported.
func (w *watcher) readTroubles(ctx context.Context) error {
	now := time.Now()
	if w.trouble == nil || w.trouble.next.IsZero() || now.Before(w.trouble.next) {
		return nil
	}
	w.trouble.next = time.Time{}
	var due []string
	for name, job := range w.jobs {
		switch {
		case job.look.IsZero():
		case job.look.After(now):
			w.look(job, job.look)
		default:
			due, job.look = append(due, name), time.Time{}
		}
	}
	live, err := w.c.judges(ctx)
	if err != nil {
		return err
	}
	slices.Sort(due)
	return w.inParts(due, func(names []string) error {
		all, err := w.c.readings(ctx, names)
		if err != nil {
			return err
		}
		at := w.c.clock.now()
		for _, r := range all {
			if err := w.tellTrouble(r, live, at); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *watcher) tellTrouble(r reading, live map[string]Instance, at moment) error {
	status, err := r.listed(live, at)
	if errors.Is(err, ErrNotFound) {
		return nil // the list of jobs will say so
	}
	if err != nil {
		return err
	}
	job := w.jobs[r.name]
	var next time.Time
	if next, job.hinges = r.changes(at); !next.IsZero() {
		w.look(job, time.Now().Add(max(next.Sub(at.certain), soon)))
	}
	now := troubles(status)
	if maps.Equal(now, job.troubles) && len(job.gone) == 0 {
		return nil
	}
	w.tell(Event{Kind: EventJobTrouble, Zxid: w.seen, At: zkrec.UTC(at.now), Job: r.name, Status: &status, Gone: job.gone})
	job.troubles, job.gone = now, nil
	return nil
}

// changes is when, by the clocks of all instances, the trouble of a job may be another one although
// nothing was written. Zero: never. hinges reports whether a run in progress is the reason why a
// late tick does not count, or would hang if its owner lived.
func (r reading) changes(at moment) (next time.Time, hinges bool) {
	if r.err != nil || r.of.err != nil || r.of.turnedErr != nil || r.of.spec.Done != nil {
		return time.Time{}, false
	}
	earlier := func(t time.Time) {
		if t.After(at.certain) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, slot := range r.slots {
		if slot.tickErr != nil {
			continue
		}
		job := r.of.ticks(slot)
		late, again := ticks.Overdue(job, slot.tick, false, at.certain)
		earlier(again)
		if slot.tick.Open() {
			hangs, _ := ticks.HangsFrom(job, slot.tick.Run, slot.history.Entries)
			earlier(hangs)
			hinges = hinges || !late.IsZero() || !hangs.IsZero() && !hangs.After(at.certain)
		}
	}
	return next, hinges
}

package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Calendars of random groups: jobs name them, they change, and at times somebody deletes one.

// calendars has calendars that change, and instances that may hear of it late.
func calendars(p *profile) { p.Calendars, p.Lagging = true, true }

// calendarNames are all calendars of a group.
var calendarNames = []string{"breaks", "holidays", "office"}

// nameCalendars gives a job some calendars, at times.
func (w *world) nameCalendars(job *jobs.Job) {
	if job.Calendars = nil; !w.Calendars {
		return
	}
	for _, name := range calendarNames {
		switch w.rng.IntN(8) {
		case 0, 1, 2:
			job.Calendars = append(job.Calendars, "-"+name)
		case 3:
			job.Calendars = append(job.Calendars, name)
		}
	}
	onlyWhatFits(job)
}

// drawCalendar draws a content: some seconds of the next minutes, on each day, or on Saturdays, of
// which the group's first day is one.
func (w *world) drawCalendar() (is jobs.Calendar) {
	zone := draw(w, "UTC", "Asia/Kolkata")
	in, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	if is.TimeZone = zone; w.rng.IntN(3) == 0 {
		is.Weekdays = []string{"sat"}
	}
	for range w.rng.IntN(4) {
		from := time.Now().In(in).Add(w.upTo(2 * time.Minute)).Add(-20 * time.Second)
		to := from.Add(time.Second + w.upTo(30*time.Second))
		is.Hours = append(is.Hours, from.Format(time.TimeOnly)+".."+to.Format(time.TimeOnly))
	}
	if is.Weekdays == nil && is.Hours == nil {
		is.Dates = []string{"1999-12-31"}
	}
	return is
}

// setCalendars makes the calendars that are not there.
func (w *world) setCalendars() {
	if !w.Calendars {
		return
	}
	for _, name := range calendarNames {
		w.setCalendar(name, jobs.Calendar{Dates: []string{"1999-12-31"}}, true)
	}
}

// setCalendar sets a calendar, or only if it is not there.
func (w *world) setCalendar(name string, is jobs.Calendar, missing bool) {
	w.operate("set calendar "+name, func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			if missing {
				list, err := c.Calendars(ctx)
				if err != nil || slices.ContainsFunc(list, func(of admin.Calendar) bool { return of.Name == name }) {
					return err
				}
			}
			_, err := c.SetCalendar(ctx, name, is, admin.NamedOptions{})
			if leaves := new(invalid.FieldError); errors.As(err, &leaves) && leaves.Field == "Name" {
				return nil // a job without a tick to come
			}
			return unless(err, admin.ErrConflict)
		})
	})
}

// changeCalendar changes a calendar, once or several times in a row, at times back again, or
// deletes it, and makes it again: by hand, too, whatever jobs name it.
func (w *world) changeCalendar() {
	if !w.Calendars {
		return
	}
	name := draw(w, calendarNames...)
	was := w.drawCalendar()
	w.setCalendar(name, was, false)
	time.Sleep(w.upTo(w.Session))
	switch w.rng.IntN(4) {
	case 0:
		w.setCalendar(name, w.drawCalendar(), false)
		time.Sleep(w.upTo(w.Session))
		w.setCalendar(name, was, false)
	case 1:
		is, away := w.drawCalendar(), w.Session+w.upTo(w.Session) // longer than a server is behind: versions begin again
		w.operate("delete calendar "+name, func(ctx context.Context) error {
			return unless(w.cluster.Delete(ctx, w.cluster.Tree().Calendar(name)), zkconn.ErrNoNode)
		})
		w.after(away, func() { w.setCalendar(name, is, false) })
	case 2:
		w.operate("delete calendar "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				_, err := c.DeleteCalendar(ctx, name, admin.NamedOptions{})
				return unless(err, admin.ErrInUse, admin.ErrNoCalendar, admin.ErrConflict)
			})
		})
	default:
	}
}

// scheduleOf is a job's schedule by the calendars and by its parents as they were last.
func (l *ledger) scheduleOf(j singleworker.Job) (sched *cronexpr.Schedule, err error) {
	sched = l.model.Schedule(j, func(j jobs.Job) *cronexpr.Schedule {
		sched, err = l.calendars.Into(zkrec.Spec{Job: j}).Job.ParseSchedule()
		return sched
	})
	if sched == nil && len(j.After) > 0 {
		return timeless, nil
	}
	return sched, err
}

// hasCalendars reports whether all calendars are there that a job names, or one that comes before
// it. It does not run otherwise.
func (l *ledger) hasCalendars(j singleworker.Job) bool {
	return !slices.ContainsFunc(l.calendarsOf(j), func(name string) bool {
		read, found := l.model.Calendars[name]
		return !found || read.Deleted
	})
}

// calendarsOf are the calendars that a job names, and those that come before it.
func (l *ledger) calendarsOf(j singleworker.Job) []string {
	names := j.CalendarNames()
	for _, ancestor := range l.ancestors(j) {
		if of := l.model.Jobs[ancestor]; of != nil {
			names = append(names, of.Spec.CalendarNames()...)
		}
	}
	return names
}

// recalendaring takes in that a calendar is to change, before it does.
func (l *ledger) recalendaring(name string, at time.Time) {
	for slot := range l.vigils {
		if j := l.model.Jobs[zkrec.JobOfSlot(slot)]; j != nil && slices.Contains(append(j.Spec.CalendarNames(), l.calendarsOf(j.Spec.Job)...), name) {
			l.changes(slot, at)
		}
	}
}

// recalendared takes in another content of a calendar: which times are ticks after it was written,
// and which were before. Ticks that are accounted for stay so, by the contents of their time, which
// the record may have forgotten. One that is gone says nothing: no claim is possible until it is
// there again.
func (l *ledger) recalendared(txn *zkdev.Txn) {
	name, is := l.tree.CalendarAt(txn.Path)
	if !is {
		return
	}
	read, found := l.model.Calendars[name]
	if !found {
		return
	}
	read.Deleted = false // it serves former schedules
	l.calendars[name] = read
	l.counts.calendars += l.retimed(txn, func(of singleworker.Job) bool { return slices.Contains(l.calendarsOf(of), name) })
}

// unknown takes in that a decision has accounted for the times after from, up to to: the ticks that
// a former schedule had there were told by nobody, if one of its calendars was gone.
func (l *ledger) unknown(acc *account, from, to int64) {
	isGone := func(name string) bool { _, found := l.model.Calendars[name]; return !found }
	var terms []term
	for _, t := range acc.terms {
		if former := t.replaced && t.until > from; former && t.since < to && slices.ContainsFunc(l.calendarsOf(t.of), isGone) {
			before := t
			before.until = max(t.since, from)
			if terms = append(terms, before); t.until <= to {
				continue
			}
			t.since = to
		}
		terms = append(terms, t)
	}
	acc.terms = terms
}

// retimed takes in that the terms of some schedules may have other ticks from now on, and returns
// how many these are.
func (l *ledger) retimed(txn *zkdev.Txn, rests func(of singleworker.Job) bool) (n int) {
	for slot, acc := range l.accounts {
		if !slices.ContainsFunc(acc.terms, func(t term) bool { return rests(t.of) }) {
			continue
		}
		var terms []term
		for _, t := range acc.terms {
			mark := acc.record.Watermark
			if !rests(t.of) || t.until != 0 && t.until <= mark {
				terms = append(terms, t)
				continue
			}
			if t.since < mark {
				before := t
				before.until, before.replaced = mark, true
				terms, t.since = append(terms, before), mark
			}
			var err error
			if t.sched, err = l.scheduleOf(t.of); err != nil {
				l.violatef(8, slot, txn.Time, "its calendar cannot be read: %v", err)
			}
			n, t.changed = n+1, txn.Time
			terms = append(terms, t)
		}
		acc.terms = terms
	}
	return n
}

// uncalendared makes claims check no versions of calendars.
func uncalendared(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck && strings.Contains(path, "/_calendars/") {
		return "/", -1
	}
	return path, version
}

// leaveOut sets the calendar whose days the job leaves out.
func (s *scene) leaveOut(day string) {
	err := s.Operate(s.t.Context(), func(client *admin.Client) error {
		_, err := client.SetCalendar(s.t.Context(), "break", jobs.Calendar{Dates: []string{day}}, admin.NamedOptions{})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// staleCalendar keeps the owner from reading a calendar that has come to leave out its ticks: its
// claims must be refused because of the calendar's version.
func staleCalendar(s *scene, b *breach) {
	s.brief = true
	s.leaveOut("1999-12-31")
	if err := s.Submit(s.t.Context(), singleworker.Job{Name: job, Schedule: s.schedule, Calendars: []string{"-break"}}); err != nil {
		s.t.Fatal(err)
	}
	owner := s.start("a", b)
	time.Sleep(2 * time.Minute)
	var held atomic.Bool
	held.Store(true)
	s.Server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
		if held.Load() && r.Client == owner.Place() && strings.HasSuffix(r.Path, "/_calendars/break") {
			return zkdev.Refuse(zkdev.OperationTimeout)
		}
		return zkdev.Pass()
	})
	s.leaveOut(time.Now().UTC().Format(time.DateOnly))
	time.Sleep(2 * time.Minute)
	held.Store(false)
	time.Sleep(2 * time.Minute)
}

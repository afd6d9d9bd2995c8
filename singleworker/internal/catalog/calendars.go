package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Calendars knows the calendars that jobs name. Each is read once a job names it, and watched from
// then on. A decision by a former version is refused: transactions check the version.
type Calendars struct {
	catalog *Catalog
	read    zkrec.ReadCalendars // those that are there
	all     map[string]*calendar
	names   map[*Job][]string // of the calendars that jobs name: those of a job that names none are not here
}

type calendar struct {
	known   bool  // it was read, or is not there
	mzxid   int64 // of the record that was read
	reading session.OnePerTime
	jobs    map[*Job]struct{} // that name it
}

func newCalendars(c *Catalog) *Calendars {
	return &Calendars{catalog: c, read: make(zkrec.ReadCalendars), all: make(map[string]*calendar), names: make(map[*Job][]string)}
}

// Hear reads a calendar again, which has changed.
func (s *Calendars) Hear(name string) {
	one := s.all[name]
	if one == nil || !s.catalog.loop.Joined() || !one.reading.Begin() {
		return
	}
	path := s.catalog.loop.Tree.Calendar(name)
	s.catalog.loop.Read([]zkconn.Read{{Path: path, Watch: true}}, func(results []zkconn.ReadResult) {
		again := one.reading.End()
		s.take(name, one, path, results[0])
		if again {
			s.Hear(name)
		}
	})
}

// joined reads all again: changes may have gone unheard between two connections.
func (s *Calendars) joined() {
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		s.Hear(name)
	}
}

// Outdated reads a job again, its calendars and ancestors, and the freeze: a transaction has shown
// that one of them has changed.
func (s *Calendars) Outdated(j *Job) {
	s.catalog.Freeze.Hear()
	if before, err := ticks.Ancestors(s.catalog.Parents, j.Spec); err == nil {
		for _, name := range before {
			s.catalog.RefreshJob(name)
		}
	}
	for _, name := range j.Spec.CalendarNames() {
		s.Hear(name)
	}
	s.catalog.Refresh(j)
}

// lookForMissing reads the calendars of a job that is invalid: a missing one is not watched.
func (s *Calendars) lookForMissing(j *Job) {
	if !j.Valid() {
		for _, name := range j.Spec.CalendarNames() {
			s.Hear(name)
		}
	}
}

// hold completes the view of a job, or keeps it until the calendars, and its parents, are read.
func (s *Calendars) hold(j *Job, v *view) (waits bool) {
	if j.waits = nil; v.spec == nil || v.spec.Canceled || v.err != nil {
		return false
	}
	names, parents := v.spec.CalendarNames(), s.catalog.Parents
	s.index(j, names)
	for _, name := range names {
		if !s.all[name].known {
			waits = true
			s.Hear(name)
		}
	}
	switch parents.index(j, v.spec.ParentNames()); {
	case waits, parents.unread(v.spec):
		j.waits, j.nextLook = v, s.catalog.loop.NextLook()
		return true
	case v.isPart():
		v.complete(s.catalog)
	}
	return false
}

// index notes which calendars a job names.
func (s *Calendars) index(j *Job, names []string) {
	for _, name := range s.names[j] {
		delete(s.all[name].jobs, j)
	}
	if delete(s.names, j); len(names) == 0 {
		return
	}
	s.names[j] = names
	for _, name := range names {
		if s.all[name] == nil {
			s.all[name] = &calendar{jobs: make(map[*Job]struct{})}
		}
		s.all[name].jobs[j] = struct{}{}
	}
}

// users are the jobs that name a calendar, by name.
func (c *calendar) users() []*Job {
	return slices.SortedFunc(maps.Keys(c.jobs), byName)
}

func (s *Calendars) take(name string, one *calendar, path string, r zkconn.ReadResult) {
	if zkconn.IsUnknown(r.Err) {
		s.catalog.loop.Async("read calendar again", func(ctx context.Context) func() {
			s.catalog.loop.WaitToAskAgain(ctx)
			return func() { s.Hear(name) }
		})
		return
	}
	was, before := s.read[name]
	delete(s.read, name)
	if !errors.Is(r.Err, zkconn.ErrNoNode) {
		is := zkrec.NewCalendar(r.Data, r.Stat.Version, r.Stat.Mtime)
		is.Err = session.ReadError(path, errors.Join(r.Err, is.Err))
		s.read[name] = is
	}
	is, after := s.read[name]
	same := one.known && before == after && one.mzxid == r.Stat.Mzxid && (was.Err == nil) == (is.Err == nil)
	one.known, one.mzxid = true, r.Stat.Mzxid
	for _, j := range one.users() {
		switch {
		case j.waits != nil:
			s.catalog.refreshed(j, *j.waits)
		case same:
		case !j.Valid(): // perhaps for another reason
			s.catalog.Refresh(j)
		default:
			s.recomplete(j)
		}
	}
}

// recomplete takes in that a calendar, or a parent, of a valid job has changed. The job is parsed
// again whatever the versions are: a calendar that was deleted by hand and made again may have the
// one of before.
func (s *Calendars) recomplete(j *Job) {
	c, v := s.catalog, view{spec: j.Spec, stamp: j.stamp}
	v.complete(c)
	c.Freeze.into(j.Name, &v)
	j.stamp = v.stamp
	c.setSpec(j, v.spec, v.ticks, v.ticksErr)
	c.setSlots(j, true)
	c.Agenda.Wake(j)
	c.loop.Tell(Changed{Job: j, Spec: true})
	c.Parents.changed(j)
}

// isPart reports whether the spec has a schedule only together with calendars or other jobs.
func (v *view) isPart() bool { return len(v.spec.CalendarNames()) > 0 || len(v.spec.ParentNames()) > 0 }

// complete parses a view whose spec names calendars, or parents, all of which are known.
func (v *view) complete(c *Catalog) {
	spec, parents := ticks.WithParents(c.loop.Tree, c.Calendars.read.Into(*v.spec), c.Parents)
	v.stamp.Version.Named = c.Calendars.read.Versions(c.loop.Tree, *v.spec).And(parents)
	if v.specErr != nil || v.ticks != nil && v.ticks.Version == v.stamp.Version {
		return
	}
	v.spec, v.ticks, v.ticksErr = &spec, nil, nil
	if parsed, err := ticks.JobOf(c.loop.Tree.Group(), v.spec, v.stamp.Version); err == nil {
		v.ticks = &parsed
	} else {
		v.ticksErr = err
	}
}

package catalog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Named knows the calendars and the limits that jobs name. Each is read once a job names it, and
// watched from then on. A decision by a former version is refused: transactions check the version.
type Named struct {
	catalog   *Catalog
	calendars zkrec.ReadCalendars // those that are there
	limits    zkrec.ReadLimits
	all       map[string]*named // by path
	paths     map[*Job][]string // of what jobs name: a job that names nothing is not here
}

type named struct {
	known   bool  // it was read, or is not there
	mzxid   int64 // of the record that was read
	reading session.OnePerTime
	jobs    map[*Job]struct{} // that name it
}

func newNamed(c *Catalog) *Named {
	return &Named{c, make(zkrec.ReadCalendars), make(zkrec.ReadLimits), make(map[string]*named), make(map[*Job][]string)}
}

// Limit is a limit as it was read last. The zero value has no places.
func (s *Named) Limit(name string) zkrec.ReadLimit { return s.limits[name] }

// Hear reads a node again that may have changed, if jobs name it.
func (s *Named) Hear(path string) {
	one := s.all[path]
	if one == nil || !s.catalog.loop.Joined() || !one.reading.Begin() {
		return
	}
	s.catalog.loop.Read([]zkconn.Read{{Path: path, Watch: true}}, func(results []zkconn.ReadResult) {
		again := one.reading.End()
		s.take(path, one, results[0])
		if again {
			s.Hear(path)
		}
	})
}

// joined reads all again: changes may have gone unheard between two connections.
func (s *Named) joined() {
	for _, path := range slices.Sorted(maps.Keys(s.all)) {
		s.Hear(path)
	}
}

// Outdated reads a job again, the nodes that it names, its ancestors, and the freeze: a transaction
// has shown that one of them has changed.
func (s *Named) Outdated(j *Job) {
	s.catalog.Freeze.Hear()
	if before, err := ticks.Ancestors(s.catalog.Parents, j.Spec); err == nil {
		for _, name := range before {
			s.catalog.RefreshJob(name)
		}
	}
	for _, path := range j.Spec.Named(s.catalog.loop.Tree) {
		s.Hear(path)
	}
	s.catalog.Refresh(j)
}

// lookForMissing reads the nodes that an invalid job names: one that is missing is not watched.
func (s *Named) lookForMissing(j *Job) {
	if !j.Valid() {
		for _, path := range j.Spec.Named(s.catalog.loop.Tree) {
			s.Hear(path)
		}
	}
}

// hold completes the view of a job, or keeps it until the nodes that it names, and its parents, are
// read.
func (s *Named) hold(j *Job, v *view) (waits bool) {
	if j.waits = nil; v.spec == nil || v.spec.Canceled || v.err != nil {
		return false
	}
	paths, parents := v.spec.Named(s.catalog.loop.Tree), s.catalog.Parents
	s.index(j, paths)
	for _, path := range paths {
		if !s.all[path].known {
			waits = true
			s.Hear(path)
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

// index notes what a job names.
func (s *Named) index(j *Job, paths []string) {
	for _, path := range s.paths[j] {
		delete(s.all[path].jobs, j)
	}
	if delete(s.paths, j); len(paths) == 0 {
		return
	}
	s.paths[j] = paths
	for _, path := range paths {
		if s.all[path] == nil {
			s.all[path] = &named{jobs: make(map[*Job]struct{})}
		}
		s.all[path].jobs[j] = struct{}{}
	}
}

// users are the jobs that name a node, by name.
func (n *named) users() []*Job {
	return slices.SortedFunc(maps.Keys(n.jobs), byName)
}

func (s *Named) take(path string, one *named, r zkconn.ReadResult) {
	if zkconn.IsUnknown(r.Err) {
		s.catalog.loop.Async("read again what jobs name", func(ctx context.Context) func() {
			s.catalog.loop.WaitToAskAgain(ctx)
			return func() { s.Hear(path) }
		})
		return
	}
	same := s.store(path, r) && one.known && one.mzxid == r.Stat.Mzxid
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

// store keeps a record as it was read. same reports whether it is there, and can be used, as
// before.
func (s *Named) store(path string, r zkconn.ReadResult) (same bool) {
	missing := errors.Is(r.Err, zkconn.ErrNoNode)
	if name, is := s.catalog.loop.Tree.LimitAt(path); is {
		limit := zkrec.NewLimit(r.Data, r.Stat.Version)
		limit.Err = session.ReadError(path, errors.Join(r.Err, limit.Err))
		return keep(s.limits, name, limit, missing, func(of zkrec.ReadLimit) error { return of.Err })
	}
	name, _ := s.catalog.loop.Tree.CalendarAt(path)
	calendar := zkrec.NewCalendar(r.Data, r.Stat.Version, r.Stat.Mtime)
	calendar.Err = session.ReadError(path, errors.Join(r.Err, calendar.Err))
	return keep(s.calendars, name, calendar, missing, func(of zkrec.ReadCalendar) error { return of.Err })
}

func keep[T any](all map[string]T, name string, is T, missing bool, err func(T) error) (same bool) {
	was, before := all[name]
	if delete(all, name); !missing {
		all[name] = is
	}
	is, after := all[name]
	return before == after && (err(was) == nil) == (err(is) == nil)
}

// recomplete takes in that a parent of a valid job has changed, or a node that it names. The job is
// parsed again whatever the versions are: a limit that was deleted by hand and made again may have
// the one of before.
func (s *Named) recomplete(j *Job) {
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

// isPart reports whether the spec can be parsed only together with nodes that it names, or with
// other jobs.
func (v *view) isPart() bool {
	return len(v.spec.CalendarNames())+len(v.spec.Job.Limits)+len(v.spec.ParentNames()) > 0
}

// complete parses a view whose spec names calendars, limits or parents, all of which are known.
func (v *view) complete(c *Catalog) {
	n, tree := c.Named, c.loop.Tree
	spec, parents := ticks.WithParents(tree, n.calendars.Into(*v.spec), c.Parents)
	v.stamp.Version.Named = n.calendars.Versions(tree, *v.spec).And(n.limits.Versions(tree, *v.spec)).And(parents)
	if v.specErr != nil || v.ticks != nil && v.ticks.Version == v.stamp.Version {
		return
	}
	v.spec, v.ticks, v.ticksErr = &spec, nil, nil
	parsed, err := ticks.JobOf(tree.Group(), v.spec, v.stamp.Version)
	if err = cmp.Or(err, n.limits.Refuse(spec.Job)); err == nil {
		v.ticks = &parsed
	} else {
		v.ticksErr = err
	}
}

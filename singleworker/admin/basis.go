package admin

import (
	"context"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// basis has the records on which jobs rest besides their own: calendars, limits, and the specs of
// the jobs after which they run. It implements ticks.Kin. The zero basis has nothing.
type basis struct {
	tree      zkrec.Tree
	calendars zkrec.ReadCalendars
	limits    zkrec.ReadLimits
	places    map[string]Limit    // of those limits that are held, and who waits, if that was asked for
	jobs      map[string]relative // that come before others, by name
}

// relative is the spec of a job that comes before another one.
type relative struct {
	spec    zkrec.Spec
	version int32
	created int64 // 0: the job is created with the other one
	err     error // why it cannot be read
	job     *ticks.Job
}

// basis reads the records on which specs rest. Jobs that are written together with
// them are added, and not read.
func (rd reader) basis(ctx context.Context, added []zkrec.Spec, specs ...zkrec.Spec) (basis, error) {
	all := basis{tree: rd.tree}
	rest := slices.Clone(specs)
	named := func() (names []string) {
		for _, spec := range rest {
			names = append(names, spec.ParentNames()...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	for names := named(); len(names) > 0; names = named() {
		if rest = nil; all.jobs == nil {
			all.jobs = make(map[string]relative)
		}
		var unread []string
		for _, name := range names {
			_, known := all.jobs[name]
			i := slices.IndexFunc(added, func(s zkrec.Spec) bool { return s.Job.Name == name })
			switch {
			case known:
			case i >= 0:
				all.jobs[name], rest = relative{spec: added[i]}, append(rest, added[i])
			default:
				unread = append(unread, name)
			}
		}
		if len(all.jobs)+len(unread) > job.MaxAncestors*len(specs) {
			break // it is refused for that
		}
		err := rd.eachOf(ctx, rd.tree.Root(), unread, func(node child) {
			of := relative{version: node.stat.Version, created: node.stat.Czxid, err: node.err}
			if node.err == nil {
				of.spec, of.err = zkrec.ParseSpec(node.name, node.data)
				of.spec = of.spec.WrittenAt(node.stat.Mtime)
			}
			if !of.spec.Canceled {
				all.jobs[node.name], rest = of, append(rest, of.spec)
			}
		})
		if err != nil {
			return basis{}, err
		}
	}
	of := slices.Clone(specs)
	for _, relative := range all.jobs {
		of = append(of, relative.spec)
	}
	var err error
	all.calendars, all.limits, err = rd.named(ctx, of...)
	return all, err
}

// Spec implements ticks.Kin.
func (a basis) Spec(name string) *zkrec.Spec {
	if of, found := a.jobs[name]; found {
		return &of.spec
	}
	return nil
}

// Parent implements ticks.Kin.
func (a basis) Parent(name string) (ticks.Parent, bool) {
	of, found := a.jobs[name]
	if found && of.job == nil && of.err == nil {
		spec, named := ticks.WithParents(a.tree, a.calendars.Into(of.spec), a)
		version := ticks.Version{Spec: of.version, Named: named.And(a.calendars.Versions(a.tree, spec))}
		var parsed ticks.Job
		if parsed, of.err = ticks.JobOf(a.tree.Group(), &spec, version); of.err == nil {
			of.job = &parsed
		}
		a.jobs[name] = of
	}
	return ticks.Parent{Spec: &of.spec, Job: of.job, Created: of.created}, found
}

// Into returns s with the records on which its schedule rests.
func (a basis) Into(s zkrec.Spec) zkrec.Spec {
	s, _ = ticks.WithParents(a.tree, a.calendars.Into(s), a)
	return s
}

// ops check that the calendars, the limits and the jobs on which a spec rests at present are as
// they were read, and tell those who would change a calendar, or a limit, that it may have come to
// be named.
func (a basis) ops(s zkrec.Spec) []zkconn.Op {
	s = zkrec.Spec{Job: s.Job}
	ops := zkconn.CheckOps(a.calendars.Versions(a.tree, s).Nodes())
	if len(ops) > 0 {
		ops = append(ops, zkconn.SetOp(a.tree.Calendars(), nil, zkconn.AnyVersion))
	}
	if limits := zkconn.CheckOps(a.limits.Versions(a.tree, s).Nodes()); len(limits) > 0 {
		ops = append(append(ops, limits...), zkconn.SetOp(a.tree.Limits(), nil, zkconn.AnyVersion))
	}
	before, err := ticks.Ancestors(a, &s)
	if err != nil {
		return ops
	}
	for _, name := range before {
		if of := a.jobs[name]; of.created != 0 {
			ops = append(ops, zkconn.CheckOp(a.tree.Job(name), of.version))
		}
	}
	return ops
}

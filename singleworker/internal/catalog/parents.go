package catalog

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Parents knows which jobs run after which. The specs of all jobs are known anyway, so that it
// reads nothing. A decision by a former spec of an ancestor is refused: transactions check the
// versions.
type Parents struct {
	catalog  *Catalog
	children map[string]map[*Job]struct{} // by the name of a parent, which may not exist
	names    map[*Job][]string            // of the parents that jobs name, if they name some
}

func newParents(c *Catalog) *Parents {
	return &Parents{catalog: c, children: make(map[string]map[*Job]struct{}), names: make(map[*Job][]string)}
}

// index notes which parents a job names.
func (p *Parents) index(j *Job, names []string) {
	for _, name := range p.names[j] {
		if delete(p.children[name], j); len(p.children[name]) == 0 {
			delete(p.children, name)
		}
	}
	if delete(p.names, j); len(names) == 0 {
		return
	}
	p.names[j] = names
	for _, name := range names {
		if p.children[name] == nil {
			p.children[name] = make(map[*Job]struct{})
		}
		p.children[name][j] = struct{}{}
	}
}

// Children are the jobs that run, or ran, after the named one, by name.
func (p *Parents) Children(name string) []*Job {
	return slices.SortedFunc(maps.Keys(p.children[name]), byName)
}

// Spec implements ticks.Kin: the spec of a job as it was read last, or nil.
func (p *Parents) Spec(name string) *zkrec.Spec {
	j := p.catalog.jobs[name]
	switch {
	case j == nil:
		return nil
	case j.waits != nil:
		return j.waits.spec
	}
	return j.Spec
}

// Parent implements ticks.Kin.
func (p *Parents) Parent(name string) (parent ticks.Parent, found bool) {
	j := p.catalog.jobs[name]
	if j == nil || !j.Known() {
		return ticks.Parent{}, false
	}
	return ticks.Parent{Spec: j.Spec, Job: j.Ticks, Created: j.Created, Written: j.specAt}, true
}

// unread reports whether a parent was not read yet. Jobs that wait for each other do not wait for
// that.
func (p *Parents) unread(spec *zkrec.Spec) bool {
	if _, err := ticks.Ancestors(p, spec); err != nil {
		return false
	}
	return slices.ContainsFunc(spec.Job.After, func(name string) bool {
		parent := p.catalog.jobs[name]
		return parent != nil && !parent.looked
	})
}

// changed completes the children of a job again, which has changed, or is gone.
func (p *Parents) changed(j *Job) {
	if len(p.children[j.Name]) == 0 {
		return
	}
	for _, child := range p.Children(j.Name) {
		switch {
		case !p.catalog.Current(child):
		case child.waits != nil:
			p.catalog.refreshed(child, *child.waits)
		case !child.Known():
		case !child.Valid(): // perhaps for another reason
			p.catalog.Refresh(child)
		default:
			v := view{spec: child.Spec, ticks: child.Ticks, stamp: child.stamp}
			if v.complete(p.catalog); v.ticks != child.Ticks {
				p.catalog.Named.recomplete(child)
			}
		}
	}
}

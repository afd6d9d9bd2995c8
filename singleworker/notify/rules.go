package notify

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// mostUnknown is of how many targets that do not exist it is warned in a term.
const mostUnknown = 100

// jobRules are who is told about a job, as the job says itself, without targets that do not exist.
type jobRules map[string][]Kind

// wants reports whether a job has a target told about a kind of episode.
func (r jobRules) wants(target string, kind Kind) bool {
	kinds, named := r[target]
	return named && (len(kinds) == 0 || slices.Contains(kinds, kind))
}

// wanted reports whether anybody is to be told about a kind of episode of a slot.
func (b *book) wanted(slot string, kind Kind) bool {
	own := b.jobs[zkrec.JobOfSlot(slot)]
	for target := range own {
		if own.wants(target, kind) {
			return true
		}
	}
	return slices.ContainsFunc(b.rules, func(r Rule) bool { return slices.Contains(r.On, kind) && r.matches(slot) })
}

// wantedBy is wanted for a target, of an episode that has that many failures.
func (b *book) wantedBy(target, slot string, kind Kind, count int) bool {
	return b.jobs[zkrec.JobOfSlot(slot)].wants(target, kind) || slices.ContainsFunc(b.rules, func(r Rule) bool {
		enough := kind != Failed || count >= r.After
		return enough && slices.Contains(r.To, target) && slices.Contains(r.On, kind) && r.matches(slot)
	})
}

// ruled takes in whom a job names. Of an episode that lasts, targets are told that it did not name
// before.
func (b *book) ruled(name string, to map[string][]Kind) {
	delete(b.canceled, name)
	known, before := b.known(name, to), b.jobs[name]
	if len(known) > 0 {
		b.jobs[name] = known
	} else {
		delete(b.jobs, name)
	}
	if !maps.EqualFunc(before, known, slices.Equal) {
		b.reruled[name] = true
	}
}

// known are the targets that exist.
func (b *book) known(name string, to map[string][]Kind) jobRules {
	known := make(jobRules)
	for target, kinds := range to {
		if slices.Contains(b.targets, target) {
			known[target] = kinds
		} else if _, said := b.unknown[target]; !said && len(b.unknown) < mostUnknown {
			b.unknown[target] = name
		}
	}
	return known
}

// rerule has the episodes of a slot looked at again if its job names others than it did.
func (b *book) rerule(p *part, slot string, r *record) {
	if name := zkrec.JobOfSlot(slot); b.reruled[name] && len(r.Episodes) > 0 {
		r.To, p.dirty = b.jobs[name], true
		for _, ep := range r.Episodes {
			ep.idle = false
		}
	}
}

// forget forgets whom the jobs named that are gone, once everybody was told.
func (b *book) forget() {
	if len(b.canceled) == 0 {
		return
	}
	told := make(map[string]bool) // those of which somebody may still be told
	for i := range b.parts {
		for slot, r := range b.parts[i].slots {
			told[zkrec.JobOfSlot(slot)] = told[zkrec.JobOfSlot(slot)] || len(r.Episodes) > 0
		}
	}
	for name := range b.canceled {
		if !told[name] {
			delete(b.canceled, name)
			delete(b.jobs, name)
		}
	}
}

// remember takes in whom the jobs named, as another sender has left it, before they are read.
func (b *book) remember() {
	for i := range b.parts {
		for slot, r := range b.parts[i].slots {
			if len(r.To) > 0 {
				name := zkrec.JobOfSlot(slot)
				b.jobs[name] = b.known(name, r.To)
			}
		}
	}
}

package notify

import (
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// mostUnknown is of how many targets that do not exist it is warned in a term.
const mostUnknown = 100

// jobRules are who is told about a job, as the job says itself.
type jobRules struct {
	to    map[string][]Kind // without targets that do not exist
	polls int               // how many polls had begun when that was read
}

// wants reports whether a job has a target told about a kind of episode.
func (r jobRules) wants(target string, kind Kind) bool {
	kinds, named := r.to[target]
	return named && (len(kinds) == 0 || slices.Contains(kinds, kind))
}

// wanted reports whether anybody is to be told about a kind of episode of a slot.
func (b *book) wanted(slot string, kind Kind) bool {
	own := b.jobs[zkrec.JobOfSlot(slot)]
	for target := range own.to {
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

// ruled takes in whom a job names. Of an episode that lasts, targets are told that it did not name before.
func (b *book) ruled(name string, to map[string][]Kind) {
	known, before := b.known(name, to), b.jobs[name].to
	if len(known) > 0 || len(before) > 0 {
		b.jobs[name] = jobRules{known, b.polls}
	}
	if !maps.EqualFunc(before, known, slices.Equal) {
		b.reruled[name] = true
	}
}

// known are the targets that exist.
func (b *book) known(name string, to map[string][]Kind) map[string][]Kind {
	known := make(map[string][]Kind)
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
		r.To, p.dirty = b.jobs[name].to, true
		for _, ep := range r.Episodes {
			ep.idle = false
		}
	}
}

// readRules takes in whom the jobs name as they were read by a poll before which that many had begun.
func (b *book) readRules(jobs []admin.JobStatus, begun int) {
	there := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		there[job.Name] = true
		unreadable := job.Job.Schedule == "" // what it said holds on
		if own := b.jobs[job.Name]; !unreadable && own.polls <= begun {
			b.ruled(job.Name, job.Job.Notify)
		}
	}
	told := make(map[string]bool) // those of which somebody may still be told
	for i := range b.parts {
		for slot, r := range b.parts[i].slots {
			told[zkrec.JobOfSlot(slot)] = told[zkrec.JobOfSlot(slot)] || len(r.Episodes) > 0
		}
	}
	maps.DeleteFunc(b.jobs, func(name string, own jobRules) bool {
		return own.polls <= begun && (!there[name] && !told[name] || len(own.to) == 0)
	})
}

// remember takes in whom the jobs named, as another sender has left it, before they are read.
func (b *book) remember() {
	for i := range b.parts {
		for slot, r := range b.parts[i].slots {
			if len(r.To) > 0 {
				name := zkrec.JobOfSlot(slot)
				b.jobs[name] = jobRules{to: b.known(name, r.To)}
			}
		}
	}
}

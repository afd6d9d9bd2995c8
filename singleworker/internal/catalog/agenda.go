package catalog

import (
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Most jobs need nothing at most times. So a sync looks only at those that are on the agenda: of
// which a watch, a signal or a notice has told something, of which an answer is awaited, or at
// which a room wants to look by now.

// state is the part of the group's state that decides about all jobs at once. When it is another
// one, the next sync looks at all of them.
type state struct {
	able           *member.Able
	changes, leaps int // of member.Clock
}

// add takes in a job of which nothing is known yet.
func add(c *Catalog, name string) *Job {
	j := &Job{Name: name, Spec: noSpec, signal: zkrec.SignalOf(name)}
	c.jobs[name], c.sorted = j, nil
	c.Agenda.Add(j)
	return j
}

func (c *Catalog) forget(j *Job) {
	delete(c.jobs, j.Name)
	c.sorted = nil
	c.Agenda.Remove(j)
	delete(c.registered, j.Name)
	c.Named.index(j, nil)
	c.Parents.index(j, nil)
	for _, slot := range j.Slots {
		c.loop.Tell(SlotGone{lease.Slot(slot)})
	}
	c.loop.Tell(Changed{Job: j})
	c.Parents.changed(j)
}

// Sync decides which jobs the rooms look at in this sync, and reads the jobs that are due to be
// read although no watch has fired.
func (c *Catalog) Sync() {
	now := c.loop.Now()
	if now >= c.nextList {
		c.List()
	}
	if is := (state{c.member.Able(), c.member.Clock.Changes(), c.member.Clock.Leaps()}); is != c.state {
		c.state = is
		c.Agenda.WakeAll()
	}
	c.Signals.sync()
	c.Agenda.Take(now)
	c.Agenda.Due(func(j *Job) {
		if now >= j.nextLook {
			c.Refresh(j)
		}
		c.Agenda.By(j, j.nextLook)
	})
	c.audit.Sync(c.sorted.of(c.jobs))
}
